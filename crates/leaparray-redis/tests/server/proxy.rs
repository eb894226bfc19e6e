//! A proxy between a client and a server: a network that delays, loses and cuts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// The time after which a lost packet is sent again.
const SENT_AGAIN: Duration = Duration::from_millis(200);

/// The way of the bytes, in either direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Link {
    /// The time that they take.
    pub(crate) delay: Duration,
    /// One of this number of packets is lost and sent again, and those after it wait; 0 for none.
    pub(crate) loses_one_of: u32,
    /// The bytes of all connections in a second, in each direction; 0 without a bound.
    pub(crate) bytes_per_sec: u32,
}

/// A proxy to a server on this machine. Runs as long as the runtime.
pub(crate) struct Proxy {
    address: String,
    #[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "a cluster tells it"))]
    port: u16,
    of: Arc<Network>,
}

struct Network {
    link: Mutex<Link>,
    /// The number of the connections that were opened.
    opened: AtomicU64,
    /// The connections with lower numbers swallow all that is sent, and neither end learns of it.
    first_alive: AtomicU64,
    /// The connections with lower numbers are reset.
    first_kept: watch::Sender<u64>,
    /// When the link has sent what it has taken, in each direction.
    free_at: [Mutex<Instant>; 2],
}

impl Proxy {
    /// Starts a proxy to the server at a port.
    pub(crate) async fn start(port: u16, link: Link) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let address = format!("redis://127.0.0.1:{own}/");
        let of = Arc::new(Network {
            link: Mutex::new(link),
            opened: AtomicU64::new(0),
            first_alive: AtomicU64::new(0),
            first_kept: watch::Sender::new(0),
            free_at: [Mutex::new(Instant::now()), Mutex::new(Instant::now())],
        });
        let network = Arc::clone(&of);
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let number = network.opened.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(Arc::clone(&network).connect(number, client, port));
            }
        });
        Self { address, port: own, of }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    #[cfg(feature = "cluster")]
    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the number of the connections that were opened.
    pub(crate) fn opened(&self) -> u64 {
        self.of.opened.load(Ordering::SeqCst)
    }

    /// Changes the link: also for what is sent on open connections from now on.
    pub(crate) fn set(&self, link: Link) {
        *self.of.link.lock().unwrap() = link;
    }

    /// Lets all open connections swallow what is sent.
    pub(crate) fn deaden(&self) {
        self.of.first_alive.store(self.opened(), Ordering::SeqCst);
    }

    /// Resets all open connections.
    pub(crate) fn reset(&self) {
        self.of.first_kept.send_replace(self.opened());
    }
}

impl Network {
    async fn connect(self: Arc<Self>, number: u64, client: TcpStream, port: u16) {
        let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
        for it in [&client, &server] {
            it.set_nodelay(true).unwrap();
            // A reset when it is dropped.
            it.set_zero_linger().unwrap();
        }
        let ((from_client, to_client), (from_server, to_server)) =
            (client.into_split(), server.into_split());
        let mut kept = self.first_kept.subscribe();
        tokio::select! {
            () = self.pass(number, 0, from_client, to_server) => {}
            () = self.pass(number, 1, from_server, to_client) => {}
            _ = kept.wait_for(|it| *it > number) => {}
        }
    }

    /// Passes on what arrives until either end has closed.
    async fn pass(&self, number: u64, direction: usize, from: OwnedReadHalf, to: OwnedWriteHalf) {
        let (sender, receiver) = mpsc::unbounded_channel();
        tokio::join!(self.take(number, direction, from, sender), deliver(receiver, to));
    }

    /// Takes what arrives, and sends it with the time at which it is at the other end.
    async fn take(
        &self,
        number: u64,
        direction: usize,
        mut from: OwnedReadHalf,
        sent: mpsc::UnboundedSender<(Instant, Vec<u8>)>,
    ) {
        let mut last = Instant::now();
        loop {
            // A connection has one packet in the queue of the link, so all have their turns.
            let mut bytes = vec![0; 4_096];
            let Ok(read @ 1..) = from.read(&mut bytes).await else { return };
            if number < self.first_alive.load(Ordering::SeqCst) {
                continue;
            }
            bytes.truncate(read);
            let link = *self.link.lock().unwrap();
            let sent_at = self.send(direction, read, link.bytes_per_sec);
            wait_until(sent_at).await;
            let is_lost = link.loses_one_of > 0 && fastrand::u32(..link.loses_one_of) == 0;
            let delay = link.delay + if is_lost { SENT_AGAIN } else { Duration::ZERO };
            last = last.max(sent_at + delay);
            if sent.send((last, bytes)).is_err() {
                return;
            }
        }
    }

    /// Returns when the link has sent a packet.
    fn send(&self, direction: usize, bytes: usize, per_sec: u32) -> Instant {
        let mut free_at = self.free_at[direction].lock().unwrap();
        let begins = Instant::now().max(*free_at);
        let nanos = (bytes as u64 * 1_000_000_000).checked_div(per_sec.into()).unwrap_or(0);
        *free_at = begins + Duration::from_nanos(nanos);
        *free_at
    }
}

async fn deliver(mut sent: mpsc::UnboundedReceiver<(Instant, Vec<u8>)>, mut to: OwnedWriteHalf) {
    while let Some((at, bytes)) = sent.recv().await {
        wait_until(at).await;
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// Not for a time that has come: a timer rounds up to a millisecond.
async fn wait_until(at: Instant) {
    if at > Instant::now() {
        sleep_until(at).await;
    }
}
