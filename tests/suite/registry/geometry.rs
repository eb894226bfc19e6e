//! The geometry of all nodes of a registry, and of one node.

use leaparray::MetricEvent::Success;
use leaparray::registry::ResourceConfig;
use leaparray::{NodeConfig, RegistryConfig, WindowConfig};

use crate::registry::{SECOND, registry, registry_of, together};

fn geometry(second: usize, minute: usize) -> NodeConfig {
    let second = WindowConfig::new(second, SECOND).unwrap();
    NodeConfig::new(second, WindowConfig::new(minute, SECOND * 60).unwrap()).unwrap()
}

#[test]
fn geometry_reaches_all_nodes() {
    let (registry, _) = registry();
    let (before, own, after) = (NodeConfig::default(), geometry(5, 300), geometry(10, 600));
    let first = registry.resource("first").unwrap();
    let context = first.in_context("web").unwrap();
    let second = registry.resource_with("second", own).unwrap();
    let again = registry.resource_with("first", own).unwrap();
    assert_eq!(
        [&first, &context, &second, &again].map(|one| *one.config()),
        [before, before, own, before]
    );
    first.enter().success();
    registry.reconfigure(after);
    first.enter().success();
    assert_eq!([&first, &context, &second].map(|one| *one.config()), [after; 3]);
    assert_eq!((first.now().long().sum(Success), registry.config()), (2, after));
    assert_eq!(*registry.resource("third").unwrap().config(), after);
    assert_eq!(*second.in_context("web").unwrap().config(), after);
    let own = registry.resource_with("fourth", ResourceConfig::default().node(own)).unwrap();
    assert_eq!(*own.config(), geometry(5, 300), "a geometry of its own again");
    own.reconfigure(before);
    assert_eq!([*own.config(), *first.config()], [before, after], "only this node has changed");
}

#[test]
fn new_nodes_have_the_geometry_of_the_configuration() {
    let configured = geometry(5, 300);
    let (registry, _) = registry_of(RegistryConfig::default().node(configured));
    assert_eq!(
        (registry.config(), *registry.resource("a").unwrap().config()),
        (configured, configured)
    );
}

#[test]
fn geometry_reaches_resources_listed_during_the_change() {
    let geometries = [geometry(5, 300), geometry(10, 600)];
    for round in 0..200 {
        let (registry, _) = registry();
        let resources = together(|number| {
            let mut resources = Vec::new();
            for i in 0..4 {
                if number == 0 {
                    registry.reconfigure(geometries[(round + i) % 2]);
                } else {
                    let resource = registry.resource(&format!("{number} {i}")).unwrap();
                    resources.push(resource.in_context("web").unwrap());
                    resources.push(resource);
                }
            }
            resources
        });
        for resource in resources.iter().flatten() {
            assert_eq!(*resource.config(), registry.config(), "{resource:?}");
        }
    }
}
