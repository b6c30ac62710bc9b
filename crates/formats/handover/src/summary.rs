//! The numbers of exported items.

use serde_json::json;
use sordino_event::Domain;
use sordino_event::text::{count, printable};
use sordino_timeline::Item;

/// Numbers of exported items.
#[derive(Debug, Default)]
pub struct ExportedItems {
    user: u64,
    kernel: u64,
    /// Places where records are missing.
    losses: u64,
    lost: u64,
}

impl ExportedItems {
    /// Counts an item that is exported.
    pub fn add(&mut self, item: &Item<'_>) {
        match item {
            Item::Event(moment) if moment.domain == Domain::User => self.user += 1,
            Item::Event(_) => self.kernel += 1,
            Item::Loss(loss, _) => {
                self.losses += 1;
                self.lost = self.lost.saturating_add(loss.count.unwrap_or(0));
            }
            Item::Disorder(_) => {}
        }
    }

    /// Returns the numbers for a person or as JSON, in one line, with the path and the size of the output.
    pub fn summary(&self, path: &str, bytes: u64, is_json: bool) -> String {
        let Self { user, kernel, losses, lost } = self;
        if is_json {
            let summary = json!({
                "output": path, "bytes": bytes, "user_events": user, "kernel_events": kernel,
                "losses": losses, "lost": lost,
            });
            return format!("{summary}\n");
        }
        let missing = match losses {
            0 => "nothing lost".to_owned(),
            losses => format!("{} lost in {}", count(*lost, "record"), count(*losses, "place")),
        };
        let size = sordino_quantity::bytes(bytes);
        format!("exported {user} user + {kernel} kernel events, {missing}: {}, {size}\n", printable(path))
    }
}
