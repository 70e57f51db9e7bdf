//! The mesh's members, as operators change them.

use super::*;
use spur_core::id::{MemberId, TokenId};
use spur_core::mesh::{MeshAsk, MeshBook, MeshKey, MeshPrefix, NewToken, Newcomer, Role};

const PREFIX: MeshPrefix = MeshPrefix(0xfd00_0000_0000_0001);

fn found() -> MeshAsk {
    MeshAsk::Found {
        prefix: PREFIX,
        first: Newcomer {
            name: NodeName::new("ctl").unwrap(),
            key: MeshKey([1; 32]),
            endpoints: vec!["192.0.2.1:51820".parse().unwrap()],
        },
    }
}

fn token(key: u8) -> MeshAsk {
    MeshAsk::Token(NewToken {
        key: MeshKey([key; 32]),
        role: Role::Node,
        name: None,
        secs: 60,
    })
}

impl Bench {
    async fn mesh(&self, ask: MeshAsk, operator: bool) -> Result<MeshBook, String> {
        let (_, answer) = self.ask_as(Act::Mesh(ask), operator).await;
        match answer.await.unwrap() {
            Ok(Reply::Mesh(book)) => Ok(*book),
            Ok(other) => panic!("{other:?}"),
            Err(refusal) => Err(refusal.text),
        }
    }

    async fn listed(&self, operator: bool) -> (Vec<MemberId>, Vec<TokenId>) {
        let book = self.mesh(MeshAsk::List, operator).await.unwrap();
        let members = book.members.iter().map(|member| member.id).collect();
        (members, book.tokens.iter().map(|token| token.id).collect())
    }
}

#[tokio::test(start_paused = true)]
async fn a_mesh_is_founded_and_outlives_the_controller() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path());
    let early = bench.mesh(token(2), true).await.unwrap_err();
    assert!(early.contains("not founded"), "{early}");
    let book = bench.mesh(found(), true).await.unwrap();
    assert_eq!((book.prefix, book.members.len()), (PREFIX, 1));
    for (key, id) in [(2, 1), (3, 2)] {
        let made = bench.mesh(token(key), true).await.unwrap();
        assert_eq!(made.tokens[0].id, TokenId(id));
    }
    let token = TokenId(1);
    let withdrawn = bench.mesh(MeshAsk::Withdraw { token }, true).await;
    assert_eq!(withdrawn.unwrap().tokens[0].key, MeshKey([2; 32]));
    bench.stop().await;
    let bench = Bench::start(dir.path());
    assert_eq!(
        bench.listed(true).await,
        (vec![MemberId(1)], vec![TokenId(2)])
    );
    assert_eq!(
        bench.listed(false).await,
        (vec![MemberId(1)], vec![]),
        "tokens are for operators"
    );
    for (name, said) in [("ctl", "last controller"), ("n1", "named n1")] {
        let name = NodeName::new(name).unwrap();
        let refused = bench
            .mesh(MeshAsk::Remove { name }, true)
            .await
            .unwrap_err();
        assert!(refused.contains(said), "{refused}");
    }
    bench.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_the_disk_did_not_take_did_not_happen_to_the_mesh() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path());
    bench.mesh(found(), true).await.unwrap();
    bench.broken.store(true, Ordering::SeqCst);
    assert!(bench.mesh(token(2), true).await.is_err());
    bench.broken.store(false, Ordering::SeqCst);
    bench.sleep(60).await;
    assert_eq!(bench.listed(true).await, (vec![MemberId(1)], vec![]));
    bench.stop().await;
}
