//! ffmpeg: a stream written by PUT and read with seeks.

use crate::client::Client;

/// Seeks to each part of the stream and of the file show the picture that the file on disk shows.
const SEEKS: &str = r#"
picture() { ffmpeg -v error -ss "$1" -i "$2" -frames:v 1 -f md5 -; }
for at in 0 1.9 2 3.7 7.2 9.9; do
  there=$(picture $at movie.mp4)
  test "$(picture $at $S/movie.mp4)" = "$there"
  test "$(picture $at $S/video/index.m3u8)" = "$there"
done
echo same
#> same
"#;

/// A live stream of 6 segments that keeps 2 in its list, and one or two more for players that are behind.
const LIVE: &str = r"
ffmpeg -v error -f lavfi -i testsrc=duration=12:rate=10 -c:v libx264 -pix_fmt yuv420p -g 20 \
    -f hls -hls_time 2 -hls_list_size 2 -hls_flags delete_segments -method PUT $S/live/index.m3u8
curl -fsS -H 'Accept: text/plain' $S/live/
#> live/index.m3u8
#> live/index3.ts
#> live/index4.ts
#> live/index5.ts
";

#[test]
fn the_lines_for_ffmpeg_run() {
    let Some(mut client) = Client::of("ffmpeg") else {
        return;
    };
    client.play();
    client.run(SEEKS);
    client.run(LIVE);
    client.server().dir.assert_nothing_staged();
}
