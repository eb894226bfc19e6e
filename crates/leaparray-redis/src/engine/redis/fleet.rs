//! The fleet of a Redis server.

use super::{RedisEngine, server_error};
use crate::engine::fleet::script;
use crate::engine::{EngineError, FleetEngine};
use crate::fleet::{Delivery, FleetConfig, FleetKeys, NamesFetch, ProcessId, Receipt, Survey};

impl FleetEngine for RedisEngine {
    async fn deliver(
        &self,
        keys: &FleetKeys,
        config: &FleetConfig,
        delivery: &Delivery,
    ) -> Result<Receipt, EngineError> {
        let mut invocation = self.fleet().deliver.prepare_invoke();
        for key in script::deliver_keys(keys, delivery) {
            invocation.key(key);
        }
        for argument in script::deliver_arguments(config, delivery) {
            invocation.arg(argument);
        }
        script::receipt(self.link.run(&invocation).await.map_err(server_error)?)
    }

    async fn survey(&self, keys: &FleetKeys, config: &FleetConfig) -> Result<Survey, EngineError> {
        let mut invocation = self.fleet().survey.prepare_invoke();
        invocation.key(keys.records()).key(keys.contacts()).arg(config.departed());
        let reply: Vec<redis::Value> = self.reading.run(&invocation).await.map_err(server_error)?;
        let [now, since, processes @ ..] = reply.as_slice() else {
            return Err(EngineError::FleetReply { found: format!("{} values", reply.len()) });
        };
        let number = |it: &redis::Value| {
            redis::from_redis_value_ref(it).map_err(|it| server_error(it.into()))
        };
        let (now, since) = (number(now)?, number(since)?);
        let processes = processes.chunks_exact(3).map(|it| {
            let text = |it| {
                redis::from_redis_value_ref(it)
                    .map_err(|it: redis::ParsingError| server_error(it.into()))
            };
            let stored =
                redis::from_redis_value_ref(&it[2]).map_err(|it| server_error(it.into()))?;
            Ok((text(&it[0])?, text(&it[1])?, stored))
        });
        script::survey((now, since, processes.collect::<Result<_, EngineError>>()?))
    }

    async fn second(
        &self,
        keys: &FleetKeys,
        config: &FleetConfig,
        second: u64,
        processes: &[ProcessId],
    ) -> Result<Vec<Option<Vec<u8>>>, EngineError> {
        let mut invocation = self.fleet().fetch.prepare_invoke();
        invocation.key(keys.second(second));
        for field in script::second_fields(config, second, processes) {
            invocation.arg(field);
        }
        let found = self.reading.run(&invocation).await;
        let mut found: Vec<Option<Vec<u8>>> = found.map_err(server_error)?;
        // Nothing at all, if the server has forgotten the second.
        found.resize(processes.len(), None);
        Ok(found)
    }

    async fn names(
        &self,
        keys: &FleetKeys,
        fetches: &[NamesFetch],
    ) -> Result<Vec<Vec<Vec<u8>>>, EngineError> {
        let mut invocation = self.fleet().names.prepare_invoke();
        for key in script::names_keys(keys, fetches) {
            invocation.key(key);
        }
        for argument in script::names_arguments(fetches) {
            invocation.arg(argument);
        }
        let found: script::NamesReply =
            self.reading.run(&invocation).await.map_err(server_error)?;
        Ok(script::names(found))
    }
}
