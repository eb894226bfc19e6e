//! `/snapshot`: the readings of all nodes at one time.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use leaparray::Clock;
use leaparray::registry::RegistrySnapshot;
use serde::Serialize;
use tokio::task::spawn_blocking;

use crate::controllers;
use crate::format::{Controller, Fleet, RuleList, VERSION};
use crate::hub::Hub;

#[derive(Serialize)]
struct Snapshot<'a> {
    version: u32,
    instance: &'a str,
    name: &'a str,
    host: &'a str,
    pid: u32,
    now: f64,
    #[serde(rename = "snapshot")]
    readings: RegistrySnapshot,
    controllers: Vec<Controller>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fleet: Option<Fleet>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rules: Option<RuleList>,
}

pub(crate) async fn get<C>(State(hub): State<Arc<Hub<C>>>) -> Response
where
    C: Clock + Clone + Send + Sync + 'static,
{
    // One at a time, so that many requests take no more than one thread.
    let Ok(turn) = Arc::clone(hub.snapshots()).acquire_owned().await else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let json = spawn_blocking(move || {
        let _turn = turn;
        json(&hub)
    });
    match json.await {
        Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn json<C: Clock + Clone + Send + Sync + 'static>(hub: &Hub<C>) -> Vec<u8> {
    let identity = hub.identity();
    let now = hub.registry().clock().now();
    let snapshot = Snapshot {
        version: VERSION,
        instance: &identity.instance,
        name: &identity.name,
        host: &identity.host,
        pid: identity.pid,
        now: crate::hub::seconds(now),
        readings: hub.registry().at(now).snapshot(),
        controllers: controllers::read(hub.registry()),
        fleet: hub.fleet().read(),
        rules: hub.rules().read(),
    };
    serde_json::to_vec(&snapshot).expect("names and numbers can be serialized")
}
