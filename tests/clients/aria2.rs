//! aria2: one file by many connections.

use crate::client::Client;

/// How many answers to GET the server has sent to their ends.
const ANSWERS: &str = r#"
curl -fsS $S/-/metrics | awk '/^data_server_requests_total.*"GET".*"2xx"/ { n += $2 } END { print (n >= 16 ? "many" : n) }'
#> many
"#;

/// 1 GiB, by 16 connections, and resumed at each quarter.
const LARGE: &str = r"
head -c 1G /dev/urandom > huge.bin
curl -fsS -T huge.bin $S/huge.bin
aria2c -q -x 16 -s 16 -k 1M -o copied.bin $S/huge.bin
cmp huge.bin copied.bin
for n in 1 2 3; do
  head -c $((n * 256))M huge.bin > part.bin
  aria2c -q -c -x 16 -s 16 -o part.bin $S/huge.bin
  cmp huge.bin part.bin
done
echo same
#> same
";

#[test]
fn the_lines_for_aria2_run() {
    let Some(mut client) = Client::of("aria2") else {
        return;
    };
    client.play();
    client.run(ANSWERS);
    client.run_if_full(LARGE);
}
