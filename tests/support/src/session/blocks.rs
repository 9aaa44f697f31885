//! A page as blocks: which are a server's own terminal, and the steps of all others.

use super::ADDRESS;

#[derive(Debug)]
pub(super) enum Block {
    Server {
        line: usize,
        options: Vec<String>,
    },
    /// A server at another place, which the shell starts.
    Another(Step),
    Steps(Vec<Step>),
}

#[derive(Debug, Default)]
pub(super) struct Step {
    pub(super) line: usize,
    pub(super) script: String,
    pub(super) expected: Vec<String>,
}

/// Splits the page into its `sh` blocks. Output in any other block would not be checked, so it is an error.
pub(super) fn blocks(page: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((at, fence)) = lines.next() {
        let Some(language) = fence.trim_start().strip_prefix("```") else {
            continue;
        };
        let indent = fence.len() - fence.trim_start().len();
        let mut body = Vec::new();
        for (at, line) in lines.by_ref() {
            if line.trim() == "```" {
                break;
            }
            body.push((at + 1, line.get(indent..).unwrap_or_default()));
        }
        if language == "sh" {
            blocks.push(block(at + 1, &body)?);
        } else if let Some((line, _)) = body.iter().find(|(_, line)| line.starts_with("#>")) {
            return Err(format!("line {line}: output in a block that is not run"));
        }
    }
    Ok(blocks)
}

fn block(line: usize, body: &[(usize, &str)]) -> Result<Block, String> {
    let listening = format!("#> listening on http://{ADDRESS}");
    if let Some((at, (_, last))) = body.iter().enumerate().next_back()
        && *last == listening
    {
        let [command] = body[..at] else {
            return Err(format!("line {line}: a server is started by one line"));
        };
        let mut words = command.1.split_whitespace().map(str::to_owned);
        if words.next().as_deref() != Some("data-server") {
            return Err(format!("line {line}: not `data-server`: {}", command.1));
        }
        let options = words.collect();
        return Ok(Block::Server { line, options });
    }
    let is =
        |line: Option<&(_, &str)>, begin| line.is_some_and(|(_, text)| text.starts_with(begin));
    let begins_server = is(body.first(), "data-server ");
    let ends_listening = is(body.last(), "#> listening on ");
    let mut steps: Vec<Step> = Vec::new();
    for &(at, text) in body {
        let begins = steps.last().is_none_or(|step| !step.expected.is_empty());
        if let Some(shown) = text.strip_prefix("#>") {
            let step = steps.last_mut();
            let step = step.ok_or_else(|| format!("line {at}: output before any command"))?;
            step.expected
                .push(shown.strip_prefix(' ').unwrap_or(shown).to_owned());
            continue;
        }
        if begins {
            steps.push(Step {
                line: at,
                ..Step::default()
            });
        }
        let step = steps.last_mut().expect("a step");
        step.script += text;
        step.script.push('\n');
    }
    match <[Step; 1]>::try_from(steps) {
        Ok([step]) if begins_server && ends_listening => Ok(Block::Another(step)),
        Ok(step) => Ok(Block::Steps(step.into())),
        Err(steps) => Ok(Block::Steps(steps)),
    }
}
