//! Hosts of pools: on the connections of CometBFT, or on framed TCP in scenarios without them.

use std::sync::Arc;

use samara_cat::{CatFrame, WithCat};
use samara_engine::{Driver, FrameCodec};
use samara_net::mconn::{self, CatCodec};
use samara_sim::{App, Flush};

use super::framed::{self, Linked, listen};
use super::serve::{Begin, Links, Place, Waiting};

pub(crate) fn open<A: App + WithCat>(
    place: Place,
    codec: Arc<dyn FrameCodec<CatFrame>>,
) -> Waiting<'static, Result<Begin<A>, String>> {
    let Some(connection) = place.connection.channels() else { return framed::open(place, codec) };
    let flush = match connection.flush {
        Flush::Throttle(interval) => mconn::Flush::Throttle(interval),
        Flush::WhenIdle => mconn::Flush::WhenIdle,
    };
    let ping_interval = Some(connection.ping_interval).filter(|interval| !interval.is_zero());
    Box::pin(async move {
        let (options, listener) = listen(place).await?;
        let begin: Begin<A> = Box::new(move |driver: Driver<A>| {
            // The groups of a scenario have channels and protocols of their own.
            let codec = CatCodec::new(driver.engine().cat_config());
            let hosted = mconn::host(&options, (flush, ping_interval), listener, codec, driver);
            let links: Box<dyn Links<A>> = Box::new(Linked(hosted));
            Ok(links)
        });
        Ok(begin)
    })
}
