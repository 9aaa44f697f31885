//! Proves previews of sound, film and PDF: they play and show within the page, under its policy, and cannot act.

use std::fmt::Write as _;

use fantoccini::key::Key;

use crate::browser::{Browser, browse_keys, browse_served};
use crate::support::prelude::*;

fn look(page: &Browser, key: &str) {
    page.look_at(key);
    page.says("#preview-title", key);
}

fn close(page: &Browser) {
    page.click("#preview-close");
    page.holds("!$('#preview').open");
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
    browse_served(&[], |page, server| {
        server.store("sound.wav", wav(3_000));
        page.visit(server.addr, "/");
        look(page, "sound.wav");
        let audio = "$('#preview-body audio')";
        page.holds(&format!("Math.round({audio}?.duration) === 3000"));
        page.eval(&format!("{audio}.currentTime = 2900"));
        page.holds(&format!("!{audio}.seeking && {audio}.readyState >= 2"));
        page.eval(&format!("((window.played = {audio}).focus(), true)"));
        page.press(" ");
        page.holds("!window.played.paused && window.played.currentTime > 2900");
        // What is no longer seen is no longer heard.
        close(page);
        page.holds("window.played.paused");
        assert_eq!(page.complaints(), [""; 0]);
    });
}

#[test]
fn film_is_played() {
    browse_keys(&[], |page, _| {
        page.says("#state", "Live");
        // The browser makes the film itself.
        let record = "(() => { const canvas = Object.assign(document.createElement('canvas'), { width: 64, height: 48 }); \
            const context = canvas.getContext('2d'); const recorder = new MediaRecorder(canvas.captureStream(20)); const parts = []; \
            const draw = () => { context.fillStyle = `hsl(${performance.now() % 360} 90% 50%)`; context.fillRect(0, 0, 64, 48); }; \
            const drawing = setInterval(draw, 20); recorder.ondataavailable = (event) => parts.push(event.data); \
            recorder.onstop = () => { clearInterval(drawing); fetch('/film.webm', { method: 'PUT', body: new Blob(parts) }); }; \
            recorder.start(); setTimeout(() => recorder.stop(), 1000); return true; })()";
        assert!(page.is(record));
        page.shows(&["film.webm"]);
        look(page, "film.webm");
        let video = "$('#preview-body video')";
        page.holds(&format!("{video}?.videoWidth === 64"));
        page.picture("preview-film.png");
        close(page);
        assert_eq!(page.complaints(), [""; 0]);
    });
}

#[test]
fn what_is_no_film_is_a_text_or_nothing() {
    browse_served(&[], |page, server| {
        // The type of this name is that of a film, and the name is that of a TypeScript program.
        server.store("program.ts", "const film: boolean = false;");
        server.store("noise.mp3", [0, 1, 2, 255].repeat(1000));
        page.visit(server.addr, "/");
        look(page, "program.ts");
        page.says("#preview-facts", "video/");
        page.says("#preview-body pre", "const film: boolean");
        close(page);
        look(page, "noise.mp3");
        page.says("#preview-body", "nothing that this browser plays");
    });
}

#[test]
fn a_pdf_is_shown_and_cannot_act() {
    browse_served(&[], |page, server| {
        server.store("paper.pdf", pdf(""));
        let script = "this.submitForm('/pwned'); app.launchURL('/pwned', false); document.title = 'pwned'; fetch('/pwned', {method: 'PUT'})";
        let script = script.replace('(', "\\(").replace(')', "\\)");
        let action = format!("/OpenAction << /S /JavaScript /JS ({script}) >>");
        server.store("scripted.pdf", pdf(&action));
        // What only says that it is a PDF is shown as one: by what it is, it would be a document of HTML.
        let html = "<!doctype html><script>top.document.title = 'pwned'; document.title = 'pwned'</script>";
        server.store_as("html.pdf", "Content-Type: application/pdf\r\n", html);
        page.visit(server.addr, "/");
        let frame = "$('#preview-body iframe')";
        let papers = ["html.pdf", "paper.pdf", "scripted.pdf"];
        for key in papers {
            look(page, key);
            page.holds(&format!("{frame}?.src.startsWith('blob:') === true"));
            // The viewer of the browser has it, in a process of its own.
            let targets = || page.devtools("Target.getTargets").to_string();
            let has_it = || targets().contains("\"url\":\"blob:");
            page.until("the viewer has the PDF", has_it);
            page.picture(&format!("preview-{key}.png"));
            close(page);
        }
        assert_eq!(page.title(), "data-server");
        server.dir.assert_holds(&papers);
        assert_eq!(page.complaints(), [""; 0]);
    });
}

#[test]
fn a_view_has_the_window_and_a_step_moves_nothing() {
    let picture = "<svg xmlns='http://www.w3.org/2000/svg' width='4000' height='3000'><rect width='4000' height='3000' fill='teal'/></svg>";
    let small = "<svg xmlns='http://www.w3.org/2000/svg' width='7' height='5'/>";
    let values = [("a.svg", picture), ("b.txt", "x"), ("c.svg", small)];
    browse_keys(&values, |page, _| {
        look(page, "a.svg");
        page.holds("$('#preview-body img')?.naturalWidth === 4000");
        page.picture("preview-large.png");
        let part = "$('#preview-body img').offsetHeight / window.innerHeight";
        let part = page.eval(part).as_f64().expect("a number");
        assert!(part > 0.65, "{part}");
        assert!(page.is("$('#preview').scrollHeight <= $('#preview').clientHeight"));
        let place = || {
            page.eval("JSON.stringify([$('#preview'), $('#preview-next')].map((it) => it.getBoundingClientRect()))")
        };
        let first = place();
        page.click("#preview-next");
        page.says("#preview-body pre", "x");
        assert_eq!(place(), first);
        // A small picture is not blown up.
        page.press(Key::Right);
        page.holds("$('#preview-body img')?.offsetWidth === 7");
        // What cannot be undone stands last.
        let last = "$$('#preview-buttons > :not([hidden])').at(-1).id";
        assert_eq!(page.eval(last), "preview-delete");
        assert_eq!(page.complaints(), [""; 0]);
    });
}
