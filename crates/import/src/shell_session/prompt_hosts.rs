//! Machines named in prompts and banners.

use std::collections::HashMap;
use whyslow_documents::diagnosis::Host;
use whyslow_model::value::Name;

/// Machines named in prompts. The banner below a prompt may name the same machine differently, for example because only one of
/// the two was anonymized.
#[derive(Clone, Debug, Default)]
pub struct PromptHosts {
    /// Machine that the capture named last.
    current: Option<Name>,
    last: Option<Name>,
    /// Last prompt and current machine before a command ran on another machine.
    before_remote: Option<(Option<Name>, Option<Name>)>,
    /// Names that banners use for these machines.
    banners: HashMap<Name, Name>,
}

impl PromptHosts {
    pub fn current(&self) -> Option<&Name> {
        self.current.as_ref()
    }

    pub fn set_current(&mut self, host: Option<Name>) {
        self.current = host;
    }

    /// Enters the machine whose output follows a command: `remote`, on which ssh ran it, or that of the prompt. Keeps the
    /// current machine if neither is known, or if the name is that of the last prompt.
    pub fn enter(&mut self, remote: Option<&str>, prompt: Option<&str>) {
        if let Some(before) = self.before_remote.take() {
            (self.last, self.current) = before;
        }
        if remote.is_some() {
            self.before_remote = Some((self.last.clone(), self.current.clone()));
        }
        if let Some(name) = remote.or(prompt).filter(|name| self.last.as_deref() != Some(*name)) {
            self.last = Some(name.into());
            self.current = Some(self.banners.get(name).cloned().unwrap_or_else(|| name.into()));
        }
    }

    /// Takes the name from a banner below the last prompt. Returns the prompt's name if it differs and was used until now.
    pub fn rename(&mut self, banner: &Name) -> Option<Name> {
        let last = self.last.as_ref().filter(|last| Host::names_differ(Some(last), Some(banner)))?;
        let before = self.banners.insert(last.clone(), banner.clone());
        before.is_none().then(|| last.clone())
    }
}
