"""A workflow whose rules are jobs; one of them fails first and is tried again, within its job."""
import os
import subprocess

RULES = """
rule all:
    input: "sum.txt"

rule number:
    output: "n{n}.txt"
    resources: mem_mb=100, runtime=5
    shell: "echo {wildcards.n} > {output}"

rule sum:
    input: expand("n{n}.txt", n=range(4))
    output: "sum.txt"
    resources: mem_mb=100, runtime=5
    threads: 2
    retries: 1
    shell: "test -e tried || {{ touch tried; exit 1; }}; cat {input} | paste -sd+ | bc > {output}; echo $SLURM_CPUS_PER_TASK >> {output}"
"""
open("Snakefile", "w").write(RULES.replace("| bc", "| python3 -c 'print(eval(input()))'"))
words = ["snakemake", "--executor", "slurm", "--jobs", "4", "--default-resources", "slurm_account=root", "--latency-wait", "10"]
words += ["--slurm-init-seconds-before-status-checks", "2", "--seconds-between-status-checks", "1"]
env = dict(os.environ, HOME=os.getcwd())
ran = subprocess.run(words, capture_output=True, text=True, env=env)
assert ran.returncode == 0, ran.stdout + ran.stderr
assert open("sum.txt").read() == "6\n2\n", open("sum.txt").read()
shown = subprocess.run(["sacct", "-X", "-n", "-P", "-o", "State"], capture_output=True, text=True, check=True).stdout.split()
assert shown == ["COMPLETED"] * 5, shown
