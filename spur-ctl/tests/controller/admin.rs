//! What operators change: it survives the controller, wins over the file until that is read again, and is for operators only.

use crate::agent::Agent;
use crate::process::{Asker, Controller, spec};
use spur_core::api::{RefusalKind, Reply, Request};
use spur_core::job::spec::JobKind;
use spur_core::manage::{Entity, Manage, Setting, Verb};
use spur_core::partition::Partition;
use spur_core::time::TimeLimit;

pub(crate) fn manage(
    entity: Entity,
    verb: Verb,
    names: &[&str],
    settings: &[(&str, &str)],
) -> Request {
    let setting = |(key, value): &(&str, &str)| Setting {
        key: (*key).to_owned(),
        value: (*value).to_owned(),
    };
    Request::Manage(Box::new(Manage {
        entity,
        verb,
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        scope: Vec::new(),
        settings: settings.iter().map(setting).collect(),
    }))
}

async fn partitions(client: &Asker) -> Vec<Partition> {
    match client.ask(&Request::Partitions).await.unwrap() {
        Reply::Partitions(partitions) => partitions,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn changes_outlive_the_controller_until_the_file_is_read_again() {
    let mut controller = Controller::start();
    let client = controller.client().await;
    let before = partitions(&client).await;
    let name = before[0].name.clone();
    let change = manage(
        Entity::Partition,
        Verb::Update,
        &[&name],
        &[("MaxTime", "7")],
    );
    client.ask(&change).await.unwrap();
    let make = manage(
        Entity::Partition,
        Verb::Create,
        &["new"],
        &[("Nodes", "ALL")],
    );
    client.ask(&make).await.unwrap();
    let account = manage(Entity::Account, Verb::Create, &["research"], &[]);
    client.ask(&account).await.unwrap();
    controller.kill();
    controller.run();
    let client = controller.client().await;
    let after = partitions(&client).await;
    assert_eq!(after.len(), before.len() + 1);
    assert_eq!(after[0].max_time, TimeLimit::Secs(420));
    let Ok(Reply::Accounts(accounts)) = client.ask(&Request::Accounts).await else {
        panic!("no accounts")
    };
    assert!(accounts.account("research").is_some());
    client.ask(&Request::Reconfigure).await.unwrap();
    assert_eq!(partitions(&client).await, before);
}

#[tokio::test]
async fn a_reservation_is_made_shown_and_enforced_at_submission() {
    let controller = Controller::start();
    let (_agent, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    let start = std::time::SystemTime::now();
    let start = start.duration_since(std::time::UNIX_EPOCH).unwrap();
    let start = (start.as_millis() + 60_000).to_string();
    let words = [
        ("starttime", start.as_str()),
        ("duration", "600"),
        ("nodes", "n1"),
        ("users", "daemon"),
    ];
    let make = manage(Entity::Reservation, Verb::Create, &[], &words);
    let made = client.ask(&make).await.unwrap();
    assert_eq!(made, Reply::Managed(vec!["daemon_1".to_owned()]));
    let Ok(Reply::Reservations(shown)) = client.ask(&Request::Reservations).await else {
        panic!("no reservations")
    };
    assert_eq!(shown[0].nodes[0].as_str(), "n1");
    let refusal = |name: &str| {
        let mut job = spec(JobKind::Batch, 1);
        job.extras_mut().reservation = name.to_owned();
        job
    };
    let kind = |refused: Result<_, spur_core::api::Refusal>| refused.unwrap_err().kind;
    assert_eq!(
        kind(client.submit(refusal("nope")).await),
        RefusalKind::InvalidReservation
    );
    assert_eq!(
        kind(client.submit(refusal("daemon_1")).await),
        RefusalKind::ReservationAccess
    );
    let stranger = manage(
        Entity::Reservation,
        Verb::Create,
        &[],
        &[("users", "no such user"), words[0], words[1], words[2]],
    );
    assert!(
        client
            .ask(&stranger)
            .await
            .unwrap_err()
            .text
            .contains("Invalid user id")
    );
}
