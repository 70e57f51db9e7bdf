use super::*;
use crate::fixture::gang;

const NOW: Millis = Millis(1_000_000_000);

fn gpus(gpus: u64) -> Amount {
    Amount { gpus, cpus: 0 }
}

fn place(job: u32) -> Place {
    Place::of(Key {
        tier: Reverse(1),
        priority: Reverse(1),
        nice: 0,
        due: Millis(0),
        job: JobId(job),
    })
}

/// Eight GPUs, of which four come free after 100 seconds and four after a day; eight jobs of one for a minute wait.
fn pool() -> Pool {
    let ends = [(100, 4), (86_400, 4)];
    let ends = ends.map(|(secs, count)| (NOW.plus_secs(secs), gpus(count)));
    let waiting = [(place(1), gpus(8), gpus(480))];
    let now = (NOW, gpus(8), gpus(0));
    Pool::of(now, ends.into_iter(), waiting.into_iter())
}

fn starts(pool: &Pool, job: u32, asks: u64, rank: Option<Rank>) -> Option<u64> {
    let start = pool.start(place(job), gpus(asks), rank);
    start.map(|start| start.secs_since(NOW))
}

#[test]
fn the_work_before_a_job_flows_through_what_others_leave() {
    let pool = pool();
    assert_eq!(
        starts(&pool, 9_999, 1, None),
        Some(220),
        "480 seconds by four"
    );
    assert_eq!(starts(&pool, 9_999, 4, None), Some(220));
    assert_eq!(
        starts(&pool, 9_999, 5, None),
        Some(86_400),
        "as many are not free before"
    );
    assert_eq!(starts(&pool, 9_999, 9, None), None);
}

#[test]
fn jobs_of_one_place_start_one_after_another() {
    let pool = pool();
    let rank = |before| Some(Rank { before, others: 7 });
    let all: Vec<_> = (0..8)
        .map(|n| starts(&pool, 1, 1, rank(n)).unwrap())
        .collect();
    assert_eq!(all[..4], [100; 4], "they fit at once");
    assert!(all.is_sorted() && all[7] > 190, "{all:?}");
}

#[test]
fn ranks_tell_jobs_of_one_place_apart() {
    let mut outlook = Outlook::default();
    outlook.pools.insert("gpu".to_owned(), (pool(), 1));
    let mut spec = gang(1, 1);
    spec.partition = "gpu".to_owned();
    let asked = |job: u32| Asked {
        job: JobId(job),
        spec: &spec,
        priority: 1,
        eligible: NOW,
        due: Millis(0),
        rank: None,
    };
    let ranks = outlook.ranks([3, 1, 2].map(asked).into_iter());
    let rank = |before| Rank { before, others: 2 };
    let wanted = [
        (JobId(1), rank(0)),
        (JobId(2), rank(1)),
        (JobId(3), rank(2)),
    ];
    assert_eq!(ranks, BTreeMap::from(wanted));
}
