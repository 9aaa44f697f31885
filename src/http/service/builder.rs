//! The builder of a reactor's service, which builds it on the thread of that reactor.

use std::rc::Rc;
use std::sync::Arc;

use crate::access::Access;
use crate::http::admin::Admin;
use crate::http::auth::guard::Guard;
use crate::http::head::identity::IdGenerator;
use crate::http::refusal::log::RejectionLog;
use crate::http::response::head_encoder::Encoder;
use crate::http::service::Service;
use crate::http::service::handler::Handler;
use crate::http::service_config::ServiceConfig;
use crate::http::watch::Subscribers;
use crate::store::Store;

/// The parts of a service. They go to the thread of a reactor, which a service itself cannot.
#[derive(Debug)]
pub struct ServiceBuilder {
    /// The store of the values.
    pub store: Arc<Store>,
    /// How requests are answered.
    pub config: ServiceConfig,
    /// The number of the reactor.
    pub reactor: usize,
    /// The state that the server's own pages tell.
    pub admin: Arc<Admin>,
    /// Who may do what, where that matters.
    pub access: Option<Arc<Access>>,
}

impl ServiceBuilder {
    /// The service, for the thread that this is called on.
    pub fn build(self) -> Service {
        let changes = self.store.changes().map(Arc::clone);
        let handler = Handler {
            store: self.store,
            reactor: self.reactor,
            config: self.config,
            admin: self.admin,
            ids: IdGenerator::default(),
            rejection_log: RejectionLog::default(),
            guard: Guard::new(self.access.clone()),
        };
        Service {
            handler: Rc::new(handler),
            subscribers: changes.map(|changes| Rc::new(Subscribers::new(changes, self.access))),
            encoder: Encoder::default(),
        }
    }
}
