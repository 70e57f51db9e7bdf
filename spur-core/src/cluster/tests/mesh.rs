//! The mesh as a part of the cluster's state.

use crate::check::{check, check_step};
use crate::cluster::Cluster;
use crate::event::Event;
use crate::fixture::World;
use crate::id::{MemberId, NodeName};
use crate::mesh::{MeshEvent, MeshKey, MeshPrefix, NewToken, Newcomer, Role};

fn who(name: &str, key: u8) -> Newcomer {
    Newcomer {
        name: NodeName::new(name).unwrap(),
        key: MeshKey([key; 32]),
        endpoints: Vec::new(),
    }
}

/// A mesh of the controller `c` and the node `n1`.
fn world() -> World {
    let mut world = World::new(1, 8);
    let prefix = MeshPrefix(0xfd00_0000_0000_0001);
    let founded = world.cluster.mesh.found(world.now, prefix, who("c", 1));
    world.does(Event::Mesh(founded.unwrap()));
    let token = NewToken {
        key: MeshKey([9; 32]),
        role: Role::Node,
        name: None,
        secs: 60,
    };
    let made = world.cluster.mesh.make_token(world.now, token);
    world.does(Event::Mesh(made.unwrap()));
    let joined = world
        .cluster
        .mesh
        .join(world.now, MeshKey([9; 32]), who("n1", 2));
    world.does(Event::Mesh(joined.unwrap()));
    world
}

#[test]
fn the_mesh_is_part_of_what_is_kept() {
    let mut world = world();
    let before = world.cluster.clone();
    assert_eq!(before.mesh.members().count(), 2);
    let bytes = rmp_serde::to_vec_named(&before).unwrap();
    assert_eq!(rmp_serde::from_slice::<Cluster>(&bytes).unwrap(), before);
    let removed = world.cluster.mesh.remove(world.now, MemberId(2)).unwrap();
    let fx = world.does(Event::Mesh(removed));
    assert!(fx.effects.is_empty() && !fx.replan);
    assert_eq!(check_step(&before, &world.cluster), Ok(()));
    assert!(
        check_step(&world.cluster, &before).is_err(),
        "nobody comes back"
    );
}

#[test]
fn what_may_not_happen_to_the_mesh_is_ignored_with_a_reason() {
    let mut world = world();
    let why = world.ignores(Event::Mesh(MeshEvent::Removed {
        member: MemberId(1),
    }));
    assert_eq!(why, "the last controller stays in the mesh");
    let why = world.ignores(Event::Mesh(MeshEvent::Removed {
        member: MemberId(7),
    }));
    assert_eq!(why, "no such member of the mesh");
    let why = world.ignores(Event::Mesh(MeshEvent::Rotated {
        member: MemberId(2),
        key: MeshKey([1; 32]),
        keep_until: world.now,
    }));
    assert_eq!(why, "a key of the mesh was seen before");
    assert_eq!(check(&world.cluster), Ok(()));
}
