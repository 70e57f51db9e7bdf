use super::*;

#[test]
fn a_lost_node_takes_its_jobs_down_and_they_run_elsewhere() {
    let jobs = [(0, 1000, 8, "a"), (0, 1000, 8, "a"), (5000, 10, 16, "a")];
    let (report, log) = run(
        &trace(&jobs),
        &Setup::new(2, 8),
        "1:40 node n1 lost\n1:00:00 node n1 back\n",
    );
    // Silent at 100, given up 300 s later; the other node is free at 1000.
    assert!(
        log.contains("100.000 node n1 silent\n400.000 node n1 lost\n"),
        "{log}"
    );
    assert!(log.contains("1000.000 start 1 n2:0-7\n"), "{log}");
    assert_eq!(
        (report.placed, report.all.max, report.never_started),
        (4, 600, 0)
    );
}

#[test]
fn a_sick_gpu_costs_that_gpu_and_not_the_node() {
    let jobs = [(100, 500, 7, "a"), (101, 10, 8, "a")];
    let (report, log) = run(
        &trace(&jobs),
        &Setup::new(1, 8),
        "0:01 gpu n1:3 sick\n20:00 gpu n1:3 well\n",
    );
    assert!(
        log.contains("0.000 start 1 n1:0-6\n") || log.contains("start 1 n1:0-2,4-7\n"),
        "{log}"
    );
    assert_eq!(report.never_started, 0);
    assert_eq!(report.all.max, 1199, "{log}");
}

#[test]
fn slow_deaths_keep_devices_and_failing_launches_cost_a_start() {
    let jobs = [(0, 100, 8, "a"), (10, 100, 8, "a")];
    let (report, _) = run(&trace(&jobs), &Setup::new(1, 8), "0 kill n1 takes 10:00\n");
    assert_eq!(report.all.max, 100 + 600 - 10);
    let (report, log) = run(
        &trace(&[(100, 50, 8, "a")]),
        &Setup::new(2, 8),
        "0 launch n1 fails\n",
    );
    assert!(log.contains("launch-failed 1 n1\n"), "{log}");
    assert!(log.contains("start 1 n2:0-7\n"), "{log}");
    assert_eq!(report.never_started, 0, "{log}");
}

#[test]
fn what_can_never_start_is_counted() {
    let (report, _) = run(
        &trace(&[(100, 50, 16, "a")]),
        &Setup::new(2, 8),
        "0 node n1 drain\n",
    );
    assert_eq!((report.never_started, report.all.jobs), (1, 0));
}

#[test]
fn scripts_that_are_wrong_are_named_by_line() {
    for (text, message) in [
        (
            "\n# x\n10 node n1 explode",
            "f:3: \"10 node n1 explode\" is no fault: write AT node",
        ),
        ("soon node n1 lost", "f:1: \"soon\" is no time such as"),
        ("0 gpu n1 sick", "f:1: \"n1\" is no GPU: write NODE:INDEX"),
        ("0 kill n1 takes UNLIMITED", "f:1: \"UNLIMITED\" is no time"),
    ] {
        let said = read_faults("f", text).unwrap_err().to_string();
        assert!(said.starts_with(message), "{said}");
    }
    let faults = read_faults("f", "1 node n9 lost # nowhere\n").unwrap();
    assert_eq!(faults[0].after_secs, 60);
    let said = replay(trace(&[(0, 1, 1, "a")]), &Setup::new(2, 8), faults, None).unwrap_err();
    assert_eq!(
        said.to_string(),
        "the fault script names node \"n9\"; nodes are n1 to n2"
    );
}
