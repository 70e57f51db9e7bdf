mod published;

use super::*;

const NODES: &str = "\
sn,cpu_milli,memory_mib,gpu,model
n1,64000,262144,8,G2
n2,64000,262144,8,G2
n3,32000,131072,2,T4
bare,96000,262144,0,
n4,32000,131072,2,
";

const TASKS: &str = "\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos
whole-1,6000,16384,1,1000,,LS
whole-2,6000,16384,1,1000,,BE
share-1,2000,4096,1,400,,LS
share-2,2000,4096,1,600,T4|P100,LS
pair,8000,32768,2,1000,,LS
eight,48000,131072,8,1000,G2,LS
cpu,4000,8192,0,0,,LS
";

fn lists(nodes: &str, tasks: &str) -> Result<Lists, BadList> {
    Lists::read(("nodes.csv", nodes), ("tasks.csv", tasks))
}

fn setup(percent: u32) -> Setup {
    Setup {
        arrivals_percent: percent,
        seeds: vec![42, 43, 44],
        fragmentation: true,
    }
}

fn error(nodes: &str, tasks: &str) -> String {
    lists(nodes, tasks).expect_err("a bad list").to_string()
}

#[test]
fn a_cluster_fills_and_the_same_seed_gives_the_same_decisions() {
    let lists = lists(NODES, TASKS).unwrap();
    let report = place(&lists, &setup(130)).unwrap();
    assert_eq!((report.nodes, report.bare_nodes, report.gpus), (4, 1, 20));
    assert_eq!(report, place(&lists, &setup(130)).unwrap());
    let hashes: Vec<u64> = report.runs.iter().map(|run| run.hash).collect();
    assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2]);
    for run in &report.runs {
        assert_eq!(run.curve.len(), 131);
        assert!(run.curve.is_sorted_by_key(|point| point.allocated));
        assert!(run.allocated() <= 20_000 && run.placed <= run.arrived);
        let left = 20_000 - run.allocated();
        assert!(run.curve.iter().all(|point| point.fragmented <= 20_000));
        assert!(run.curve[130].fragmented <= left);
    }
    let Spread { mean, sd } = report.allocated();
    assert!(mean > 80.0 && mean <= 100.0 && sd < 15.0, "{mean} {sd}");
}

#[test]
fn arrivals_ask_for_what_was_wanted_and_no_more() {
    let lists = lists(NODES, TASKS).unwrap();
    for percent in [1, 40, 130, 400] {
        let order = arrivals::draw(&lists, percent, &mut Rng::new(7)).unwrap();
        let asked: u64 = order.iter().map(|task| lists.demand(*task)).sum();
        let wanted = u64::from(percent) * 200;
        assert!(asked <= wanted, "{percent} %: {asked}");
        assert!(
            asked + 8_000 > wanted || percent < 60,
            "{percent} %: {asked}"
        );
        let other = arrivals::draw(&lists, percent, &mut Rng::new(8)).unwrap();
        assert!(order != other || percent < 130, "{percent} %");
    }
}

#[test]
fn a_task_goes_to_a_model_that_it_names_or_nowhere() {
    let tasks = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\nt,1000,1024,1,1000,T4|X1\n";
    let report = place(&lists(NODES, tasks).unwrap(), &setup(100)).unwrap();
    assert!(
        report
            .runs
            .iter()
            .all(|run| run.allocated() == 2_000 && run.placed == 2)
    );
    let tasks = tasks.replace("T4|X1", "X1");
    let report = place(&lists(NODES, &tasks).unwrap(), &setup(100)).unwrap();
    assert!(report.runs.iter().all(|run| run.placed == 0));
}

#[test]
fn processors_and_memory_are_limits() {
    let tasks = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\nt,16000,1024,1,1000\n";
    let report = place(&lists(NODES, tasks).unwrap(), &setup(100)).unwrap();
    assert!(report.runs.iter().all(|run| run.placed == 4 + 4 + 2 + 2));
    let tasks = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\nt,0,131072,1,500\n";
    let report = place(&lists(NODES, tasks).unwrap(), &setup(100)).unwrap();
    assert!(report.runs.iter().all(|run| run.placed == 2 + 2 + 1 + 1));
}

#[test]
fn columns_may_be_missing_moved_or_quoted() {
    let nodes =
        "\u{feff}model,gpu,\"sn\",memory_mib,cpu_milli,rack\r\n\"A\",4,n1,1024.5,8000.0,r1\r\n\r\n";
    let tasks = "num_gpu,name,cpu_milli,memory_mib\n4,a,8000,1025\n1,b,1,1\n";
    let lists = lists(nodes, tasks).unwrap();
    assert_eq!(lists.counts(), [1, 0, 4, 2]);
    assert_eq!(lists.demand(0), 4_000, "without gpu_milli, GPUs are whole");
    assert_eq!(lists.nodes()[0].state.memory_mib, 1_025);
}

#[test]
fn bad_input_is_named_by_file_line_column_and_value() {
    let bad = TASKS.replace("6000,16384,1,1000,,BE", "6000,16384,1,1001,,BE");
    assert_eq!(
        error(NODES, &bad),
        "tasks.csv:3: column gpu_milli: \"1001\" is not a whole number from 1 to 1000"
    );
    let bad = TASKS.replace("2000,4096,1,400", "2000,4096,one,400");
    assert_eq!(
        error(NODES, &bad),
        "tasks.csv:4: column num_gpu: \"one\" is not a whole number from 0 to 4096"
    );
    assert_eq!(
        error(
            &NODES.replace("32000,131072,2,T4", "-32000,131072,2,T4"),
            TASKS
        ),
        "nodes.csv:4: column cpu_milli: \"-32000\" is not a number from 0 to 1073741824"
    );
    assert_eq!(
        error(&NODES.replace("n2,64000,", "n2,"), TASKS),
        "nodes.csv:3: 4 values, but the first line names 5 columns"
    );
    assert_eq!(
        error("sn,cpu_milli,memory_mib,gpus,model\n", TASKS),
        "nodes.csv:1: there is no column gpu; it names \"sn,cpu_milli,memory_mib,gpus,model\""
    );
    assert_eq!(
        error("sn,cpu_milli,memory_mib,gpu,model\nn1,1,1,0,\n", TASKS),
        "nodes.csv: it has no node with a GPU"
    );
    assert_eq!(
        error(NODES, "name,cpu_milli,memory_mib,num_gpu\n"),
        "tasks.csv: it has no task"
    );
    assert!(error("", TASKS).starts_with("nodes.csv:1: there is no column sn"));
}

#[test]
fn demand_that_never_adds_up_is_refused() {
    let tasks = "name,cpu_milli,memory_mib,num_gpu\na,1000,1024,0\n";
    let lists = lists(NODES, tasks).unwrap();
    assert_eq!(
        place(&lists, &setup(130)),
        Err(Unable::NoDemand { percent: 130 })
    );
}

#[test]
fn results_come_as_table_lines_and_picture() {
    let report = place(&lists(NODES, TASKS).unwrap(), &setup(20)).unwrap();
    let table = report.table();
    assert!(
        table.contains("1 nodes without GPUs are left out"),
        "{table}"
    );
    assert_eq!(
        table
            .lines()
            .filter(|line| line.trim_start().starts_with("4"))
            .count(),
        4
    );
    let csv = report.csv();
    let widths: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(widths, [3 + 21; 7]);
    let svg = report.svg();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    assert_eq!(svg.matches("<polyline").count(), 2);
}
