use super::*;

fn refusal(text: &str) -> String {
    Trace::read("t.csv", text).unwrap_err().to_string()
}

#[test]
fn plain_traces_may_have_fractions_empty_lines_and_any_order() {
    let text = "timestamp,duration,num_gpus,gpu_time,cluster\r\n\
                2017-10-09 07:01:55,66.5,1,66.0,11cb48\r\n2017-10-09T06:13:03.250,2951,16,0,6214e9\r\n\r\n\n";
    let trace = Trace::read("t.csv", text).unwrap();
    let jobs: Vec<_> = trace
        .jobs
        .iter()
        .map(|job| {
            (
                job.line,
                job.submitted.secs(),
                job.run_secs,
                job.gpus,
                job.user.as_str(),
            )
        })
        .collect();
    assert_eq!(
        jobs,
        [
            (3, 1_507_529_583, 2951, 16, "6214e9"),
            (2, 1_507_532_515, 67, 1, "11cb48")
        ]
    );
    let turned = "cluster,num_gpus,duration,timestamp\nx,2,10,100\n";
    assert_eq!(Trace::read("t.csv", turned).unwrap().jobs[0].gpus, 2);
}

#[test]
fn what_is_wrong_is_named_with_file_line_column_and_value() {
    let head = "timestamp,duration,num_gpus,gpu_time,cluster\n";
    let good = "2017-10-09 07:01:55,66.0,1,66.0,11cb48\n";
    for (line, message) in [
        (
            "2017-13-09 07:01:55,6,1,6,a",
            "t.csv:3: column timestamp: \"2017-13-09 07:01:55\" is not a time",
        ),
        (
            "2017-10-09 07:01:55,-6,1,6,a",
            "t.csv:3: column duration: \"-6\" is not a number of seconds",
        ),
        (
            "2017-10-09 07:01:55,nan,1,6,a",
            "t.csv:3: column duration: \"nan\" is not",
        ),
        (
            "2017-10-09 07:01:55,6,one,6,a",
            "t.csv:3: column num_gpus: \"one\" is not a number of GPUs",
        ),
        (
            "2017-10-09 07:01:55,6,5000000000,6,a",
            "t.csv:3: column num_gpus",
        ),
        (
            "2017-10-09 07:01:55,6,1",
            "t.csv:3: 3 columns where the first line names 5",
        ),
    ] {
        let said = refusal(&format!("{head}{good}{line}\n"));
        assert!(said.starts_with(message), "{said}");
    }
    assert!(refusal("a,b\n1,2\n").starts_with("t.csv:1: no column \"timestamp\""));
    assert!(refusal("").starts_with("t.csv:1: no column"));
    assert_eq!(refusal(head), "t.csv: no job in it that ran");
    assert!(refusal("JobID|State\n1|COMPLETED\n").contains("no column \"Submit\""));
}

const EXPORT: &str = "\
JobID|JobName|User|Partition|Submit|Start|End|Elapsed|Timelimit|ReqTRES|AllocTRES|NNodes|NCPUS|ReqMem|State
1|train|ann|gpu|2026-11-01T10:00:00|2026-11-01T10:00:05|2026-11-01T11:00:05|01:00:00|1-00:00:00|billing=32,cpu=32,gres/gpu=8,mem=256G,node=2||2|32|256G|COMPLETED
1.batch|batch|||2026-11-01T10:00:05|2026-11-01T10:00:05|2026-11-01T11:00:05|01:00:00|||cpu=16|1|16||COMPLETED
2|x|bob|gpu,cpu|2026-11-01T09:00:00|2026-11-01T09:30:00|2026-11-01T09:30:40|00:00:40|UNLIMITED||cpu=4,gres/gpu:h200=2,mem=1.5G,node=1|1|4|4Gc|CANCELLED by 0
3|x|bob|gpu|2026-11-01T09:00:00|Unknown|2026-11-01T09:10:00|00:00:00|Partition_Limit|||1|1|1G|CANCELLED
4|x|bob|gpu|2026-11-01T09:00:00|2026-11-01T09:00:00|Unknown|00:00:10|10:00|||1|1|1G|RUNNING
5|x|bob|gpu|2026-11-01T12:00:00|2026-11-01T12:00:00|2026-11-01T12:00:07|00:00:07|Partition_Limit|||2|6|500Mn|FAILED
";

#[test]
fn exports_of_sacct() {
    let trace = Trace::read("t", EXPORT).unwrap();
    let (left, jobs) = (&trace.left_out, &trace.jobs);
    assert_eq!(
        (
            left["is a step"],
            left["did not run"],
            left["had not ended"]
        ),
        (1, 1, 1)
    );
    assert_eq!(jobs.len(), 3);
    let first = TraceJob {
        line: 4,
        submitted: Millis(1_793_523_600_000),
        run_secs: 40,
        limit: Some(TimeLimit::Unlimited),
        nodes: 1,
        gpus: 2,
        cpus: 4,
        memory_mib: 2048,
        user: "bob".to_owned(),
        partition: "gpu".to_owned(),
        name: "x".to_owned(),
    };
    assert_eq!(jobs[0], first);
    assert_eq!(
        (
            jobs[1].nodes,
            jobs[1].gpus,
            jobs[1].cpus,
            jobs[1].memory_mib
        ),
        (2, 8, 32, 256 << 10)
    );
    assert_eq!(jobs[1].limit, Some(TimeLimit::Secs(86_400)));
    assert_eq!(
        (jobs[2].gpus, jobs[2].memory_mib, jobs[2].limit),
        (0, 1000, None)
    );
    let report = replay(trace, &Setup::new(2, 8), Vec::new(), None).unwrap();
    assert_eq!((report.all.jobs, report.never_started), (3, 0));
}

#[test]
fn exports_with_other_columns_and_wrong_values() {
    let raw = "Submit|ElapsedRaw|TimelimitRaw|NCPUS\n2026-11-01T09:00:00|90|2|8\n";
    let job = Trace::read("t", raw).unwrap().jobs.remove(0);
    assert_eq!(
        (job.run_secs, job.limit, job.cpus),
        (90, Some(TimeLimit::Secs(120)), 8)
    );
    let ends = "Submit|Start|End\n2026-11-01T09:00:00|2026-11-01T09:00:10|2026-11-01T09:01:00\n";
    assert_eq!(Trace::read("t", ends).unwrap().jobs[0].run_secs, 50);
    for (old, new, message) in [
        (
            "01:00:00|1-00",
            "soon|1-00",
            "t.csv:2: column Elapsed: \"soon\" is not a run time",
        ),
        (
            "1-00:00:00",
            "never",
            "t.csv:2: column Timelimit: \"never\" is not a time limit",
        ),
        (
            "gres/gpu=8",
            "gres/gpu=eight",
            "t.csv:2: column ReqTRES: \"billing",
        ),
        (
            "|500Mn",
            "|500Qn",
            "t.csv:7: column ReqMem: \"500Qn\" is not an amount of memory",
        ),
        (
            "2|6|500",
            "2|six|500",
            "t.csv:7: column NCPUS: \"six\" is not a whole number",
        ),
    ] {
        let said = refusal(&EXPORT.replace(old, new));
        assert!(said.starts_with(message), "{said}");
    }
}
