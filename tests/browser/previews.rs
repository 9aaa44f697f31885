//! Proves previews of sound, film and PDF: they play and show within the page, under its policy, and cannot act.

use std::fmt::Write as _;

use crate::browser::{Browser, browse};
use crate::support::prelude::*;

async fn look(browser: &Browser, key: &str) {
    let key_button = format!(
        "[...document.querySelectorAll('#rows a[data-key]')].find((it) => it.textContent === '{key}')"
    );
    let click =
        format!("((button) => {{ button?.click(); return Boolean(button); }})({key_button})");
    browser.until_true(&click).await;
    browser.until_text("#preview-title", key).await;
}

async fn close(browser: &Browser) {
    browser.click("#preview-close").await;
    browser
        .until_true("!document.getElementById('preview').open")
        .await;
}

/// So many seconds of noise: 8,000 samples a second, of 8 bits.
fn wav(seconds: u32) -> Vec<u8> {
    let samples = 8_000 * seconds;
    let mut wav = b"RIFF".to_vec();
    wav.extend((36 + samples).to_le_bytes());
    wav.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0data");
    wav.extend(samples.to_le_bytes());
    wav.extend(pattern(1, samples as usize));
    wav
}

/// A page of a PDF, with this in its catalogue and a text on it.
fn pdf(catalogue: &str) -> Vec<u8> {
    let text = "BT /F 40 Tf 30 100 Td (A page of a PDF) Tj ET";
    let objects = [
        format!("<< /Type /Catalog /Pages 2 0 R {catalogue} >>"),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".into(),
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 400 200] /Contents 4 0 R \
         /Resources << /Font << /F << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>"
            .into(),
        format!("<< /Length {} >>\nstream\n{text}\nendstream", text.len()),
    ];
    let mut pdf = "%PDF-1.4\n".to_owned();
    let mut offsets = Vec::new();
    for (n, object) in objects.iter().enumerate() {
        offsets.push(pdf.len());
        let _ = write!(pdf, "{} 0 obj\n{object}\nendobj\n", n + 1);
    }
    let start = pdf.len();
    pdf += "xref\n0 5\n0000000000 65535 f \n";
    for offset in offsets {
        let _ = writeln!(pdf, "{offset:010} 00000 n ");
    }
    let end = "trailer\n<< /Size 5 /Root 1 0 R >>";
    let _ = write!(pdf, "{end}\nstartxref\n{start}\n%%EOF\n"); // writing to a String cannot fail
    pdf.into_bytes()
}

#[test]
fn sound_is_played_from_any_place() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        server.store("sound.wav", wav(3_000));
        browser.visit(server.addr, "/").await;
        look(browser, "sound.wav").await;
        let audio = "document.querySelector('#preview-body audio')";
        browser
            .until_true(&format!("Math.round({audio}?.duration) === 3000"))
            .await;
        browser.eval(&format!("{audio}.currentTime = 2900")).await;
        browser
            .until_true(&format!("!{audio}.seeking && {audio}.readyState >= 2"))
            .await;
        browser
            .eval(&format!("((window.played = {audio}).focus(), true)"))
            .await;
        browser.press(" ").await;
        browser
            .until_true("!window.played.paused && window.played.currentTime > 2900")
            .await;
        // What is no longer seen is no longer heard.
        close(browser).await;
        browser.until_true("window.played.paused").await;
        assert_eq!(browser.complaints().await, [""; 0]);
    });
}

#[test]
fn film_is_played() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        browser.visit(server.addr, "/").await;
        browser.until_text("#state", "Live").await;
        // The browser makes the film itself.
        let record = "(() => { const canvas = Object.assign(document.createElement('canvas'), { width: 64, height: 48 }); \
            const context = canvas.getContext('2d'); const recorder = new MediaRecorder(canvas.captureStream(20)); const parts = []; \
            const draw = () => { context.fillStyle = `hsl(${performance.now() % 360} 90% 50%)`; context.fillRect(0, 0, 64, 48); }; \
            const drawing = setInterval(draw, 20); recorder.ondataavailable = (event) => parts.push(event.data); \
            recorder.onstop = () => { clearInterval(drawing); fetch('/film.webm', { method: 'PUT', body: new Blob(parts) }); }; \
            recorder.start(); setTimeout(() => recorder.stop(), 1000); return true; })()";
        assert_eq!(browser.eval(record).await, true);
        browser.until_keys(&["film.webm"]).await;
        look(browser, "film.webm").await;
        let video = "document.querySelector('#preview-body video')";
        browser
            .until_true(&format!("{video}?.videoWidth === 64"))
            .await;
        browser.picture("preview-film.png").await;
        close(browser).await;
        assert_eq!(browser.complaints().await, [""; 0]);
    });
}

#[test]
fn what_is_no_film_is_a_text_or_nothing() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        // The type of this name is that of a film, and the name is that of a TypeScript program.
        server.store("program.ts", "const film: boolean = false;");
        server.store("noise.mp3", [0, 1, 2, 255].repeat(1000));
        browser.visit(server.addr, "/").await;
        look(browser, "program.ts").await;
        browser.until_text("#preview-facts", "video/").await;
        browser
            .until_text("#preview-body pre", "const film: boolean")
            .await;
        close(browser).await;
        look(browser, "noise.mp3").await;
        browser
            .until_text("#preview-body", "nothing that this browser plays")
            .await;
    });
}

#[test]
fn a_pdf_is_shown_and_cannot_act() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        server.store("paper.pdf", pdf(""));
        let script = "this.submitForm('/pwned'); app.launchURL('/pwned', false); document.title = 'pwned'; fetch('/pwned', {method: 'PUT'})";
        let action = format!(
            "/OpenAction << /S /JavaScript /JS ({}) >>",
            script.replace('(', "\\(").replace(')', "\\)")
        );
        server.store("scripted.pdf", pdf(&action));
        // What only says that it is a PDF is shown as one: by what it is, it would be a document of HTML.
        let html = "<!doctype html><script>top.document.title = 'pwned'; document.title = 'pwned'</script>";
        let mut raw = server.connect();
        let lines = "Content-Type: application/pdf\r\n";
        let stored = ask(&mut raw, "PUT", "/html.pdf", lines, html.as_bytes());
        assert_eq!(stored.status, 200);
        browser.visit(server.addr, "/").await;
        let frame = "document.querySelector('#preview-body iframe')";
        for key in ["html.pdf", "paper.pdf", "scripted.pdf"] {
            look(browser, key).await;
            browser
                .until_true(&format!("{frame}?.src.startsWith('blob:') === true"))
                .await;
            // The viewer of the browser has it, in a process of its own.
            browser
                .until("the viewer has the PDF", async || {
                    let targets = browser.devtools("Target.getTargets").await.to_string();
                    targets.contains("\"url\":\"blob:")
                })
                .await;
            browser.picture(&format!("preview-{key}.png")).await;
            close(browser).await;
        }
        let title = browser.client.title().await.expect("a title");
        assert_eq!(title, "data-server");
        server
            .dir
            .assert_holds(&["html.pdf", "paper.pdf", "scripted.pdf"]);
        assert_eq!(browser.complaints().await, [""; 0]);
    });
}
