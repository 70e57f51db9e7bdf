use super::accounts::limits;
use super::*;
use crate::fixture::{World, batch, gang};
use crate::job::admit;
use crate::job::spec::{Given, JobSpec};
use crate::job::state::{JobState, Reason};
use crate::partition::PartitionState;
use crate::resources::MemoryRequest;
use crate::time::TimeLimit;

fn settings(words: &[&str]) -> Vec<Setting> {
    let pair = |word: &&str| {
        let (key, value) = word.split_once('=').unwrap();
        Setting {
            key: key.to_owned(),
            value: value.to_owned(),
        }
    };
    words.iter().map(pair).collect()
}

fn request(entity: Entity, verb: Verb, name: &str, words: &[&str]) -> Manage {
    Manage {
        entity,
        verb,
        names: name
            .split(',')
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect(),
        scope: Vec::new(),
        settings: settings(words),
    }
}

impl World {
    fn manages(&mut self, request: &Manage) -> Result<Vec<String>, Refusal> {
        let decision = decide(&self.cluster, self.now, Uid(0), request)?;
        for event in decision.events {
            self.does(event);
        }
        Ok(decision.names)
    }

    fn update(
        &mut self,
        entity: Entity,
        name: &str,
        words: &[&str],
    ) -> Result<Vec<String>, Refusal> {
        self.manages(&request(entity, Verb::Update, name, words))
    }

    /// A reservation of the nodes from now plus `from` on, for so many seconds.
    fn reserve(
        &mut self,
        nodes: &str,
        from: u64,
        secs: u64,
        more: &[&str],
    ) -> Result<String, Refusal> {
        let start = format!("starttime={}", self.now.plus_secs(from).0);
        let (length, nodes) = (format!("duration={secs}"), format!("nodes={nodes}"));
        let mut words = vec![start.as_str(), &length, &nodes];
        words.extend(more);
        let made = self.manages(&request(Entity::Reservation, Verb::Create, "", &words));
        made.map(|names| names[0].clone())
    }
}

fn in_reservation(name: &str) -> JobSpec {
    let mut spec = batch();
    spec.extras_mut().reservation = name.to_owned();
    spec
}

#[test]
fn a_partition_is_changed_made_and_taken_away_and_the_file_counts_again_when_asked() {
    let mut world = World::new(2, 8);
    let words = [
        "MaxTime=30",
        "DefaultTime=NONE",
        "State=DRAIN",
        "AllowGroups=ml,ops",
        "Hidden=YES",
    ];
    world.update(Entity::Partition, "gpu", &words).unwrap();
    let gpu = |world: &World| world.cluster.partitions[0].clone();
    let changed = gpu(&world);
    assert_eq!(changed.max_time, TimeLimit::Secs(1800));
    assert_eq!(
        (changed.default_time, changed.state),
        (None, PartitionState::Drain)
    );
    assert_eq!(
        (changed.allow_groups.join(","), changed.hidden),
        ("ml,ops".to_owned(), true)
    );
    let made = request(
        Entity::Partition,
        Verb::Create,
        "new",
        &["Nodes=n1", "PriorityTier=3"],
    );
    world.manages(&made).unwrap();
    assert_eq!(world.cluster.partitions.len(), 2);
    assert!(world.manages(&made).unwrap_err().text.contains("Duplicate"));
    let gone = request(Entity::Partition, Verb::Delete, "new", &[]);
    world.manages(&gone).unwrap();
    assert_eq!(world.cluster.partitions.len(), 1);
    world.does(Event::Managed(Change::Reset));
    assert_eq!(gpu(&world).max_time, TimeLimit::Secs(86_400));
    for (words, says) in [
        (["Foo=1"], "Invalid input: Foo=1"),
        (["State=ON"], "Acceptable State values are UP"),
        (["OverSubscribe=PERHAPS"], "FORCE:#"),
        (
            ["RootOnly=MAYBE"],
            "Acceptable RootOnly values are YES and NO",
        ),
        (["Default=NO"], "default partition"),
    ] {
        let refused = world.update(Entity::Partition, "gpu", &words).unwrap_err();
        assert!(refused.text.contains(says), "{words:?}: {}", refused.text);
    }
}

#[test]
fn a_nodes_features_weight_and_remarks_are_changed() {
    let mut world = World::new(2, 8);
    let words = ["Features=a,b", "Weight=7", "Comment=new fan", "Extra=x"];
    world.update(Entity::Node, "n1", &words).unwrap();
    world
        .update(Entity::Node, "n1", &["features+=c", "features-=a"])
        .unwrap();
    let node = world.cluster.nodes.values().next().unwrap().clone();
    assert_eq!(
        world.cluster.features(&node).collect::<Vec<_>>(),
        ["b", "c"]
    );
    assert_eq!(world.cluster.weight(&node), 7);
    let refused = world
        .update(Entity::Node, "n1", &["state=drain"])
        .unwrap_err();
    assert!(refused.text.contains("You must specify a reason"));
    world
        .update(Entity::Node, "n1", &["state=drain", "reason=fan"])
        .unwrap();
    assert_eq!(
        world
            .update(Entity::Node, "n9", &["weight=2"])
            .unwrap_err()
            .kind,
        RefusalKind::InvalidNode
    );
}

#[test]
fn nodes_of_a_reservation_are_for_its_users_in_its_time_only() {
    let mut world = World::new(2, 8);
    let name = world.reserve("n1", 600, 3600, &["users=alice"]).unwrap();
    assert_eq!(name, "alice_1");
    // An hour would run into it; five minutes do not.
    let long = world.submit(JobSpec {
        nodelist: vec!["n1".to_owned()],
        ..gang(1, 1)
    });
    let short = world.submit(JobSpec {
        nodelist: vec!["n1".to_owned()],
        time_limit: Some(TimeLimit::Secs(300)),
        ..gang(1, 1)
    });
    let elsewhere = world.submit(gang(1, 1));
    let early = world.submit(in_reservation(&name));
    world.plan();
    let state = |world: &World, job| world.job(job).state;
    assert_eq!(state(&world, short), JobState::Running);
    assert_eq!(state(&world, elsewhere), JobState::Running);
    assert_eq!(
        (state(&world, long), world.job(long).reason),
        (JobState::Pending, Reason::ReqNodeNotAvail)
    );
    assert_eq!(world.job(early).reason, Reason::Reservation);
    world.now = world.now.plus_secs(700);
    world.plan();
    let job = world.job(early);
    assert_eq!(job.state, JobState::Running);
    assert_eq!(
        world.cluster.nodes[&job.allocation[0].node].name.as_str(),
        "n1"
    );
    assert_eq!(state(&world, long), JobState::Pending);
    // Its end ends what runs in it, and frees its nodes for others.
    world.now = world.now.plus_secs(4000);
    for event in world.cluster.expired(world.now) {
        world.does(event);
    }
    assert_eq!(state(&world, early), JobState::Timeout);
    assert!(world.cluster.managed.reservations.is_empty());
}

#[test]
fn reservations_are_refused_in_slurms_words() {
    let mut world = World::new(2, 8);
    let name = world
        .reserve("n1", 0, 600, &["users=alice", "flags=DAILY"])
        .unwrap();
    let kind = |refused: Result<String, Refusal>| refused.unwrap_err().kind;
    assert_eq!(
        kind(world.reserve("n1", 60, 60, &["users=bob"])),
        RefusalKind::ReservationOverlap
    );
    assert_eq!(
        kind(world.reserve("n9", 60, 60, &["users=bob"])),
        RefusalKind::InvalidNode
    );
    assert_eq!(
        kind(world.reserve("n2", 60, 60, &[])),
        RefusalKind::ReservationEmpty
    );
    assert!(
        world
            .reserve("n1", 60, 60, &["users=root", "flags=maint"])
            .is_ok()
    );
    let admitted =
        |world: &World, spec: JobSpec| admit::admit(&world.cluster, &mut spec.clone(), world.now);
    assert_eq!(
        admitted(&world, in_reservation("nope")).unwrap_err().kind,
        RefusalKind::InvalidReservation
    );
    assert_eq!(
        admitted(&world, in_reservation("root_2")).unwrap_err().kind,
        RefusalKind::ReservationAccess
    );
    assert!(admitted(&world, in_reservation(&name)).is_ok());
    let job = world.submit(in_reservation(&name));
    let delete = request(Entity::Reservation, Verb::Delete, &name, &[]);
    assert_eq!(
        world.manages(&delete).unwrap_err().kind,
        RefusalKind::ReservationBusy
    );
    world.does(Event::Cancelled { job, by: Uid(0) });
    let before = world.cluster.managed.reservations[&name].start;
    world.now = world.now.plus_secs(601);
    for event in world.cluster.expired(world.now) {
        world.does(event);
    }
    assert_eq!(
        world.cluster.managed.reservations[&name].start,
        before.plus_secs(86_400)
    );
}

#[test]
fn accounts_users_and_qualities_are_kept() {
    let mut world = World::new(1, 8);
    let add = |entity, name: &str, words: &[&str]| request(entity, Verb::Create, name, words);
    world
        .manages(&add(Entity::Account, "Research", &["description=r d"]))
        .unwrap();
    world
        .manages(&add(
            Entity::Account,
            "ml",
            &["parent=research", "grptres=gres/gpu=8,cpu=10"],
        ))
        .unwrap();
    world
        .manages(&add(Entity::Qos, "high", &["priority=10", "maxwall=1-0"]))
        .unwrap();
    world
        .manages(&add(
            Entity::User,
            "alice,bob",
            &["account=ml", "fairshare=5", "qos=high"],
        ))
        .unwrap();
    let accounts = &world.cluster.managed.accounts;
    let tree: Vec<String> = accounts
        .tree()
        .iter()
        .map(|own| accounts.lineage(own))
        .collect();
    assert_eq!(
        tree,
        [
            "/",
            "/0-root/",
            "/research/",
            "/research/ml/",
            "/research/ml/0-alice/",
            "/research/ml/0-bob/"
        ]
    );
    let ml = accounts.association("ml", "", "").unwrap();
    assert_eq!(limits::value(&ml.limits, "GrpTRES"), "gres/gpu=8,cpu=10");
    assert_eq!(
        limits::value(&accounts.quality("high").unwrap().limits, "MaxWall"),
        "1-00:00:00"
    );
    assert_eq!(
        accounts.qualities(accounts.association("ml", "bob", "").unwrap()),
        ["high"]
    );
    assert!(accounts.may_charge("bob", "ml") && !accounts.may_charge("bob", "research"));
    world
        .update(Entity::Account, "ml", &["GrpCPUs=-1", "GrpNodes=2"])
        .unwrap();
    let accounts = &world.cluster.managed.accounts;
    let ml = accounts.association("ml", "", "").unwrap();
    assert_eq!(limits::value(&ml.limits, "GrpTRES"), "gres/gpu=8,node=2");
    assert!(
        world
            .update(Entity::Account, "research", &["parent=ml"])
            .is_err()
    );
    let none = world
        .manages(&add(Entity::User, "carol", &["account=nope"]))
        .unwrap_err();
    assert!(none.text.contains("This account 'nope' doesn't exist"));
    world
        .manages(&request(Entity::Account, Verb::Delete, "research", &[]))
        .unwrap();
    assert_eq!(world.cluster.managed.accounts.associations.len(), 2);
    assert!(world.cluster.managed.accounts.user("bob").is_none());
}

#[test]
fn what_was_said_and_who_is_charged_is_noted() {
    let admitted = |world: &World, mut spec: JobSpec| {
        admit::admit(&world.cluster, &mut spec, world.now).unwrap();
        spec
    };
    let mut world = World::new(1, 8);
    for (entity, name, words) in [
        (Entity::Account, "research", &[][..]),
        (Entity::User, "alice", &["account=research"]),
        (
            Entity::User,
            "alice",
            &["account=research", "partition=gpu"],
        ),
    ] {
        world
            .manages(&request(entity, Verb::Create, name, words))
            .unwrap();
    }
    let accounts = &world.cluster.managed.accounts;
    let of = |user: &str, partition: &str| {
        let own = accounts.association("research", user, partition);
        own.unwrap().id
    };
    let job = |account: &str| JobSpec {
        account: account.to_owned(),
        ..batch()
    };
    let mut other = job("");
    other.owner.user = "bob".to_owned();
    for (spec, account, charged) in [
        (job(""), false, of("alice", "gpu")),
        (job("research"), true, of("alice", "gpu")),
        (other, false, 0),
    ] {
        let spec = admitted(&world, spec);
        assert_eq!((spec.given.account, spec.association), (account, charged));
    }
    let said = JobSpec {
        partition: "gpu".to_owned(),
        qos: "normal".to_owned(),
        memory: MemoryRequest::PerCpu(1),
        ..batch()
    };
    let all = admitted(&world, said).given;
    assert!(all.partition && all.qos && all.memory);
    let none = admitted(&world, batch()).given;
    assert_eq!(none, Given::default());
}

/// What is said of a value that makes no sense; nothing is changed.
fn refused(world: &mut World, request: &Manage) -> String {
    let before = world.cluster.managed.clone();
    let text = world.manages(request).unwrap_err().text;
    assert_eq!(world.cluster.managed, before, "{request:?}");
    text
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn values_that_mean_nothing_are_named_and_not_kept() {
    let mut world = World::new(1, 8);
    let add = |entity, name: &str, words: &[&str]| request(entity, Verb::Create, name, words);
    world.manages(&add(Entity::Account, "bio", &[])).unwrap();
    world
        .manages(&add(Entity::User, "alice", &["account=bio"]))
        .unwrap();
    world.manages(&add(Entity::Qos, "low", &[])).unwrap();
    for (entity, name, word, named) in [
        (Entity::Qos, "low", "flags=foo", "Bad QOS flag: foo"),
        (
            Entity::Qos,
            "low",
            "flags+=nodecay,foo",
            "Bad QOS flag: foo",
        ),
        (
            Entity::Qos,
            "low",
            "preempt=nope",
            "You gave a bad qos 'nope'",
        ),
        (
            Entity::Qos,
            "low",
            "preempt+=nope",
            "You gave a bad qos 'nope'",
        ),
        (
            Entity::Qos,
            "low",
            "preemptmode=foo",
            "Bad Preempt Mode given: foo",
        ),
        (
            Entity::Qos,
            "low",
            "usagefactor=x",
            "Bad UsageFactor value: x",
        ),
        (
            Entity::Qos,
            "low",
            "preemptexempttime=x",
            "Bad PreemptExemptTime value: x",
        ),
        (
            Entity::Qos,
            "low",
            "grptres=cpu=1,gres/gpx=4",
            "No TRES known by type gres/gpx",
        ),
        (
            Entity::Qos,
            "low",
            "maxwall+=5",
            "Unknown option: maxwall+=5",
        ),
        (
            Entity::User,
            "alice",
            "account=x",
            "Unknown option: account=x\n Use keyword 'where'",
        ),
        (
            Entity::User,
            "alice",
            "partition=x",
            "Unknown option: partition=x",
        ),
        (
            Entity::User,
            "alice",
            "maxjobs+=5",
            "Unknown option: maxjobs+=5",
        ),
        (Entity::Account, "bio", "name=x", "Unknown option: name=x"),
    ] {
        // The first `=` behind the key's sign parts it.
        let (key, value) = word.split_once('=').unwrap();
        let mut asked = request(entity, Verb::Update, name, &[]);
        asked.settings = vec![Setting {
            key: key.to_owned(),
            value: value.to_owned(),
        }];
        let text = refused(&mut world, &asked);
        assert!(text.contains(named), "{word}: {text}");
    }
    let words = [
        "flags=nodecay,DenyOnL",
        "flags+=overpart",
        "flags-=NoDecay",
        "preempt=normal",
        "preempt+=low",
        "preempt-=normal",
    ];
    for word in words {
        world.update(Entity::Qos, "low", &[word]).unwrap();
    }
    let low = world.cluster.managed.accounts.quality("low").unwrap();
    assert_eq!(low.flags, ["DenyOnLimit", "OverPartQOS"]);
    assert_eq!(limits::value(&low.limits, "Preempt"), "low");
    world
        .update(Entity::Qos, "low", &["grptres=gres/gpu:h200=4", "flags=-1"])
        .unwrap();
    let low = world.cluster.managed.accounts.quality("low").unwrap();
    assert!(low.flags.is_empty());
}

#[test]
fn only_lists_and_durations_are_changed_by_a_part() {
    let mut world = World::new(2, 8);
    let name = world.reserve("n1", 0, 600, &["users=alice"]).unwrap();
    let length = |world: &World| {
        let known = &world.cluster.managed.reservations[&name];
        (known.end.0 - known.start.0) / 1000
    };
    for (word, then) in [
        ("duration+=300", 900),
        ("duration-=120", 780),
        ("duration=60", 60),
    ] {
        world.update(Entity::Reservation, &name, &[word]).unwrap();
        assert_eq!(length(&world), then, "{word}");
    }
    for (entity, name, word) in [
        (Entity::Reservation, name.as_str(), "duration-=60"),
        (Entity::Reservation, name.as_str(), "starttime+=5"),
        (Entity::Node, "n1", "weight+=5"),
        (Entity::Partition, "gpu", "maxtime+=5"),
        (Entity::Partition, "gpu", "nodes=n9"),
        (Entity::Partition, "gpu", "nodes+=n9"),
    ] {
        refused(&mut world, &request(entity, Verb::Update, name, &[word]));
    }
    world
        .update(Entity::Partition, "gpu", &["nodes=n1"])
        .unwrap();
}
