//! Proves the files for operators: the units start this server with little exposure, and the dashboard uses existing
//! metrics.

use clap::CommandFactory as _;
use data_server::Args;

use crate::support::prelude::*;

fn text(name: &str) -> String {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/assets");
    fs::read_to_string(assets.join(name)).expect("a file of text")
}

/// The value of a setting that appears once in a unit.
fn setting<'a>(unit: &'a str, name: &str) -> &'a str {
    let lines = unit.lines().filter_map(|line| line.split_once('='));
    let values: Vec<&str> = lines.filter(|(n, _)| *n == name).map(|(_, v)| v).collect();
    assert_eq!(values.len(), 1, "{name}= in {unit}");
    values[0]
}

/// The standard output and error of `systemd-analyze`, which must succeed; `None` where there is none.
fn systemd_analyze(args: &[&str]) -> Option<String> {
    let Ok(output) = Command::new("systemd-analyze").args(args).output() else {
        let told = "systemd-analyze does not run here";
        left_out("what systemd makes of the units", told);
        return None;
    };
    let both = [output.stdout, output.stderr].concat();
    let both = String::from_utf8_lossy(&both).into_owned();
    assert!(output.status.success(), "{args:?}: {both}");
    Some(both)
}

#[test]
fn the_units_start_this_server_with_little_exposure() {
    let (service, socket) = (text("data-server.service"), text("data-server.socket"));
    // systemd finds it in /usr/local/bin or /usr/bin. An option here would win over the file of options.
    assert_eq!(setting(&service, "ExecStart"), "data-server");
    assert_eq!(setting(&service, "Type"), "notify");
    assert_eq!(setting(&socket, "ListenStream"), "127.0.0.1:8080");
    let kept = format!("/var/lib/{}", setting(&service, "StateDirectory"));
    let options = text("data-server.toml");
    let line = format!("\ndir = \"{kept}\"\n");
    assert!(options.contains(&line), "{options}");

    // With either setting systemd refuses openat2, because seccomp cannot see its arguments.
    for refusing in ["DynamicUser", "RestrictSUIDSGID"] {
        assert!(!service.lines().any(|line| line.starts_with(refusing)));
    }
    assert_eq!(setting(&service, "User"), "data-server");
    // systemd kills what a drain may still finish unless it waits for longer.
    let program = Args::command();
    let drain = program
        .get_arguments()
        .find(|option| option.get_id() == "grace_period");
    let drain = drain.expect("the option").get_default_values()[0].to_str();
    let seconds = |text: &str| text.trim_end_matches('s').parse::<u32>().expect("seconds");
    assert!(seconds(setting(&service, "TimeoutStopSec")) > seconds(drain.expect("text")));

    tested();
    let place = TempDir::new().expect("a directory");
    let path = |name: &str| place.path().join(name).to_str().expect("text").to_owned();
    let (service_at, socket_at) = (path("data-server.service"), path("data-server.socket"));
    let binary = binary().display().to_string();
    let here = service.replace("ExecStart=data-server", &format!("ExecStart={binary}"));
    let here = here.replace("ExecReload=data-server", &format!("ExecReload={binary}"));
    fs::write(&service_at, here).expect("a unit");
    fs::write(&socket_at, socket).expect("a unit");
    let said = needed!(systemd_analyze(&["verify", &service_at, &socket_at]));
    let about_us = said.lines().filter(|line| line.contains("data-server"));
    let about_us: Vec<&str> = about_us.collect();
    assert!(about_us.is_empty(), "{about_us:#?}");
    // In tenths: 0 is no exposure, 100 is full exposure.
    systemd_analyze(&["security", "--offline=true", "--threshold=10", &service_at]);
}

#[test]
fn the_file_of_options_is_right_with_its_comments_taken_off() {
    let (service, options) = (text("data-server.service"), text("data-server.toml"));
    let place = "DATA_SERVER_CONFIG=/etc/data-server/data-server.toml";
    assert_eq!(setting(&service, "Environment"), place);
    let is_option = |line: &&str| line.starts_with('#') && !line.starts_with("# ");
    let given = options.lines().filter(is_option).map(|line| &line[1..]);
    let given: Vec<&str> = given.filter(|line| !line.is_empty()).collect();
    assert!(given.len() > 10, "{given:?}");
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("data-server.toml");
    // The files that the comments name are not there.
    for (content, code) in [(options.clone(), 0), (given.join("\n"), 1)] {
        fs::write(&file, content).expect("a file");
        let check = ["config", "check", file.to_str().expect("text")];
        let ended = Launch::new(&check).bare().run();
        assert_eq!(ended.code, Some(code), "{}", ended.stderr);
    }
}

/// The names of metrics in a text.
fn metrics_in(expression: &str) -> impl Iterator<Item = &str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = expression.split(move |c| !is_name(c));
    words.filter(|word| word.starts_with("data_server_") || word.starts_with("process_"))
}

#[test]
fn the_dashboard_uses_existing_metrics() {
    directory_only!("the metrics of a directory");
    let server = TestServer::start(&["--durability", "disk", "--max-size", "4KiB"]);
    // Only a bound that has evicted a value tells how old it was.
    server.store("evicted", "value");
    server.store("k", "value");
    assert_eq!(server.get("k").status, 200);
    let scraped = server.get("-/metrics").text();
    // Only a server with a certificate tells when that ends, and only one with rights who asks.
    let (authority, dir) = (Authority::new(), DataDir::temporary());
    let own = authority.issue("own", &["127.0.0.1"]);
    let rules = dir.outside("access.toml");
    fs::write(&rules, "").expect("a file of no rules");
    let rules = ["--access", rules.to_str().expect("text")];
    let options = [&own.options()[..], &rules, &["--admin", "127.0.0.1:0"]].concat();
    let secured = Launch::new(&options).listen("https://127.0.0.1:0");
    let secured = secured.on(&dir).start();
    let scraped = scraped + &Scrape::of(secured.admin()).text;
    let samples = scraped.lines().filter(|line| !line.starts_with('#'));
    let there = samples.filter_map(|line| line.split(['{', ' ']).next());
    let there: BTreeSet<&str> = there.collect();
    assert!(there.len() > 20, "{there:?}");

    let dashboard = text("grafana.json");
    let asked = dashboard.lines().filter(|line| {
        let name = line.trim_start().split(':').next();
        ["\"expr\"", "\"definition\""].contains(&name.unwrap_or_default())
    });
    let asked: BTreeSet<&str> = asked.flat_map(metrics_in).collect();
    assert!(asked.len() > 20, "{asked:?}");
    for shown in words(
        "ready free_bytes tls_certificate_end_timestamp_seconds auth_total journal_appended_bytes_total log_lines_lost_total",
    ) {
        let name = format!("data_server_{shown}");
        assert!(asked.contains(&*name), "{shown} has no panel");
    }
    let rules = text("alerts.yml");
    let rules = rules.lines().filter(|line| !line.contains("summary"));
    let asked = asked.into_iter().chain(rules.flat_map(metrics_in));
    let missing: Vec<_> = asked.filter(|name| !there.contains(name)).collect();
    assert!(missing.is_empty(), "not in /-/metrics: {missing:?}");

    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len(), "every panel has an id of its own");
}

/// Servers of a metric, and what fires of them. Of the bounds, that of all values has never evicted one, and so has no
/// age of it; one evicts old values, one evicted young ones long ago, and one does so all the time.
const FIRING: &str = "\
rule_files: [alerts.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'data_server_ready{instance=\"a\"}', values: '1 0 0 0 0'}
      - {series: 'data_server_ready{instance=\"b\"}', values: '1 1 1 1 1'}
      - {series: 'data_server_tls_certificate_end_timestamp_seconds{instance=\"a\"}', values: '86400x5'}
      - {series: 'data_server_tls_certificate_end_timestamp_seconds{instance=\"b\"}', values: '8640000x5'}
      - {series: 'data_server_bound_evicted_total{instance=\"a\",prefix=\"\"}', values: '0x120'}
      - {series: 'data_server_bound_evicted_total{instance=\"a\",prefix=\"healthy/\"}', values: '0+9x120'}
      - {series: 'data_server_bound_last_evicted_idle_seconds{instance=\"a\",prefix=\"healthy/\"}', values: '7200x120'}
      - {series: 'data_server_bound_evicted_total{instance=\"a\",prefix=\"once/\"}', values: '0 9 9x118'}
      - {series: 'data_server_bound_last_evicted_idle_seconds{instance=\"a\",prefix=\"once/\"}', values: '60x120'}
      - {series: 'data_server_bound_evicted_total{instance=\"a\",prefix=\"young/\"}', values: '0+9x120'}
      - {series: 'data_server_bound_last_evicted_idle_seconds{instance=\"a\",prefix=\"young/\"}', values: '60x120'}
    alert_rule_test:
      - {eval_time: 4m, alertname: DataServerNotReady, exp_alerts: [{exp_labels: {severity: critical, instance: a}, exp_annotations: {summary: 'a is not ready: /-/ready says why'}}]}
      - {eval_time: 4m, alertname: DataServerCertificateEnds, exp_alerts: [{exp_labels: {severity: warning, instance: a}, exp_annotations: {summary: 'a certificate of a ends in 23h 56m 0s'}}]}
      - {eval_time: 90m, alertname: DataServerEvictsYoungValues, exp_alerts: [{exp_labels: {severity: warning, instance: a, prefix: young/}, exp_annotations: {summary: 'a evicts values of young/ that were used within the hour: the bound is small for its use'}}]}
";

#[test]
fn promtool_takes_the_alerts_and_has_them_fire() {
    if !is_on_path("promtool") {
        return left_out("alerts by promtool", "there is no promtool");
    }
    let place = TempDir::new().expect("a directory");
    fs::write(place.path().join("alerts.yml"), text("alerts.yml")).expect("the alerts");
    fs::write(place.path().join("test.yml"), FIRING).expect("a test of them");
    for words in [
        ["check", "rules", "alerts.yml"],
        ["test", "rules", "test.yml"],
    ] {
        let mut command = Command::new("promtool");
        let command = command.args(words).current_dir(place.path());
        let output = command.stdin(Stdio::null()).output().expect("promtool");
        assert!(output.status.success(), "{output:?}");
    }
}
