//! One caption out of several.

use serde_json::Value as Json;

use super::{Augment, Needs};
use crate::error::{Error, Result};
use crate::random::Rng;
use crate::sample::{Fields, Value};

/// Makes a caption field into one text: a text stays, of a JSON object one of its prompts is chosen by weight.
///
/// Exactly one of the input fields must be there, and its value must be a text, a JSON string, or an object with prompts, which may stand
/// inside the object under `caption` or `captions`. Empty prompts don't count. What doesn't fit is left out: [`Error::filter`].
#[derive(Debug, Clone)]
pub struct PickCaption {
    inputs: Vec<String>,
    output: String,
    prompts: Vec<(String, f64)>,
}

impl Default for PickCaption {
    /// From `caption` or `captions_qwen2p5_7b_v4` to `caption`; `prompt`, `prompt_medium`, `prompt_short` with equal weights.
    fn default() -> Self {
        Self::new(["caption", "captions_qwen2p5_7b_v4"], "caption").prompts([
            ("prompt", 1.0),
            ("prompt_medium", 1.0),
            ("prompt_short", 1.0),
        ])
    }
}

impl PickCaption {
    /// From one of these fields to `output`.
    #[must_use]
    pub fn new<S: Into<String>>(
        inputs: impl IntoIterator<Item = S>,
        output: impl Into<String>,
    ) -> Self {
        Self {
            inputs: inputs.into_iter().map(Into::into).collect(),
            output: output.into(),
            prompts: Vec::new(),
        }
    }

    /// The prompts to choose among, and their weights.
    #[must_use]
    pub fn prompts<S: Into<String>>(mut self, prompts: impl IntoIterator<Item = (S, f64)>) -> Self {
        self.prompts = prompts.into_iter().map(|(name, weight)| (name.into(), weight)).collect();
        self
    }

    /// The caption of one value; `None` if it has none.
    #[must_use]
    pub fn pick(&self, value: &Value, rng: &mut Rng) -> Option<String> {
        let mut json = match value {
            Value::Text(text) => return Some(text.clone()),
            Value::Json(json) => json,
            _ => return None,
        };
        while let Some(inner) = json.get("caption").or_else(|| json.get("captions")) {
            json = inner;
        }
        match json {
            Json::String(text) => Some(text.clone()),
            Json::Object(object) => {
                let prompts = self.prompts.iter().filter_map(|(name, weight)| {
                    let text = object.get(name)?.as_str().filter(|text| !text.is_empty())?;
                    Some((text, *weight))
                });
                let (texts, weights): (Vec<_>, Vec<_>) = prompts.unzip();
                rng.weighted(&weights).map(|at| texts[at].to_owned())
            }
            _ => None,
        }
    }
}

impl Augment for PickCaption {
    fn apply(&self, fields: &mut Fields<Value>, rng: &mut Rng) -> Result<()> {
        let mut there = self.inputs.iter().filter(|name| fields.get(name).is_some());
        let (Some(input), None) = (there.next(), there.next()) else {
            return Err(Error::filter(format!(
                "not exactly one of the fields {}",
                self.inputs.join(", ")
            )));
        };
        let caption = fields.get(input).and_then(|value| self.pick(value, rng));
        let caption =
            caption.ok_or_else(|| Error::filter("no caption in it").in_field(input.as_str()))?;
        if *input != self.output {
            fields.remove(input);
        }
        fields.insert(self.output.as_str(), Value::Text(caption));
        Ok(())
    }

    fn needs(&self) -> Needs {
        Needs::Any
    }
}
