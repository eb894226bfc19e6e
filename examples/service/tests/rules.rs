//! The file of the rules is changed while the service runs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The longest time until a change of the file is in force. It takes two seconds on an idle
/// machine.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// A service that is ended when it is dropped.
struct Service {
    process: Child,
    address: String,
    /// The service ends when its output is closed.
    _output: BufReader<ChildStdout>,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Service {
    /// Starts the service without a client.
    fn start(rules: &Path) -> Self {
        let mut service = Command::new(env!("CARGO_BIN_EXE_example-service"));
        service.arg("--no-load").arg("--rules").arg(rules).stdout(Stdio::piped());
        let mut process = service.spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Self { process, address, _output: output }
    }

    /// Waits until `/fast` has the status.
    fn wait_for(&self, status: u16) {
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build();
        let agent = ureq::Agent::from(agent);
        let start = Instant::now();
        loop {
            let found = agent.get(format!("http://{}/fast", self.address)).call().unwrap().status();
            if found == status {
                return;
            }
            assert!(start.elapsed() < MAX_WAIT, "{found} instead of {status}");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn changed_rules_are_in_force_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("limits.toml");
    let rule = "[[rule]]\nname = \"fast\"\nresource = \"/fast\"\nin_flight = 1\n";
    fs::write(&file, rule).unwrap();
    let service = Service::start(&file);
    service.wait_for(200);
    fs::write(&file, rule.replace("in_flight = 1", "limit = \"1 per hour\"")).unwrap();
    service.wait_for(429);
    fs::write(&file, "rule = []\n").unwrap();
    service.wait_for(200);
}
