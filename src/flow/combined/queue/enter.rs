//! Requests that enter a node.

use std::ops::Deref;
use std::time::Duration;

use super::park::Timers;
use super::{Begun, Limiter, QueuePermit, Refusal, WaitQueue};
use crate::node::{Entry, ResourceNode};
use crate::time::{Clock, Timestamp};

/// An entry with the permit of a queue.
type Entered<N, C, L> = Entry<N, C, QueuePermit<<L as Limiter>::Permit>>;

impl<L: Limiter> WaitQueue<L> {
    /// Waits as [`acquire_with`](Self::acquire_with) does, and then enters the request into a node.
    /// A refused request counts there as blocked, with its reason. The entry ends the permit.
    ///
    /// All times are read from the node's clock. The request enters when it is admitted: its wait
    /// is no part of its response time, and it is not in flight while it waits. A future that is
    /// dropped while it waits counts nothing.
    ///
    /// # Errors
    ///
    /// As for [`acquire_with`](Self::acquire_with).
    ///
    /// ```
    /// use leaparray::flow::{ConcurrencyLimiter, Reason, WaitQueue};
    /// use leaparray::{MetricEvent, NodeConfig, ResourceNode};
    /// use std::time::Duration;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (node, limiter) =
    ///     (ResourceNode::new(NodeConfig::default()), ConcurrencyLimiter::new(1));
    /// let queue = WaitQueue::new(&limiter).with_capacity(1);
    /// let wait = Duration::from_millis(1);
    /// let entry = queue.enter_with(&node, 1, wait, tokio::time::sleep).await?;
    /// assert!(queue.enter_with(&node, 1, wait, tokio::time::sleep).await.is_err());
    /// entry.success();
    /// assert_eq!(node.now().long().sum(MetricEvent::Pass), 1);
    /// assert_eq!(node.refusals()[Reason::WaitTooLong], 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn enter_with<N, C, F>(
        &self,
        node: N,
        permits: u64,
        timeout: Duration,
        sleep: impl FnMut(Duration) -> F,
    ) -> Result<Entered<N, C, L>, Refusal>
    where
        N: Deref<Target = ResourceNode<C>>,
        C: Clock + Clone,
        F: Future,
    {
        let now = node.clock().now();
        self.enter_with_at(node, now, permits, timeout, sleep).await
    }

    /// Like [`enter_with`](Self::enter_with), with `now` as the time of the first question.
    ///
    /// # Errors
    ///
    /// As for [`acquire_with`](Self::acquire_with).
    pub async fn enter_with_at<N, C, F>(
        &self,
        node: N,
        now: Timestamp,
        permits: u64,
        timeout: Duration,
        sleep: impl FnMut(Duration) -> F,
    ) -> Result<Entered<N, C, L>, Refusal>
    where
        N: Deref<Target = ResourceNode<C>>,
        C: Clock + Clone,
        F: Future,
    {
        let result = match self.begin(Some(&*node), now, permits, timeout) {
            Ok(Begun::Admitted(permit)) => Ok((permit, now)),
            // Only a refusal reads the clock once more.
            Ok(Begun::Waits(waiting)) => {
                let result = waiting.run(sleep).await;
                result.map_err(|refusal| (refusal, node.clock().now().max(now)))
            }
            Err(refusal) => Err((refusal, now)),
        };
        match result {
            Ok((permit, now)) => Ok(Entry::with_permit(node, now, permits, permit)),
            Err((refusal, until)) => {
                refusal.count_at(&node, until, permits);
                Err(refusal)
            }
        }
    }

    /// Waits as [`acquire_blocking`](Self::acquire_blocking) does, and enters the request as
    /// [`enter_with`](Self::enter_with) does.
    ///
    /// # Errors
    ///
    /// As for [`acquire_with`](Self::acquire_with).
    ///
    /// ```
    /// use leaparray::flow::{Rate, TokenBucket, WaitQueue};
    /// use leaparray::{MetricEvent, NodeConfig, ResourceNode};
    /// use std::time::Duration;
    ///
    /// let node = ResourceNode::new(NodeConfig::default());
    /// let queue = WaitQueue::new(TokenBucket::new(Rate::per_second(1_000)?, 1));
    /// for _ in 0..3 {
    ///     queue.enter_blocking(&node, 1, Duration::from_secs(60))?.success();
    /// }
    /// assert_eq!(node.now().long().sum(MetricEvent::Success), 3);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn enter_blocking<N, C>(
        &self,
        node: N,
        permits: u64,
        timeout: Duration,
    ) -> Result<Entered<N, C, L>, Refusal>
    where
        N: Deref<Target = ResourceNode<C>>,
        C: Clock + Clone,
    {
        let timers = Timers::default();
        timers.block_on(self.enter_with(node, permits, timeout, |wait| timers.sleep(wait)))
    }
}
