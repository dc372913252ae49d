//! Hosts of mixes: over gRPC, or on framed TCP in scenarios without it.

use std::sync::Arc;

use samara_engine::{Driver, Engine, FrameCodec};
use samara_mix::{MixFrame, WithMix};
use samara_net::mix::{self, Windows};
use samara_sim::{App, Connection, Window};

use super::framed::{self, Linked, listen};
use super::serve::{Begin, Links, Place, Waiting};

pub(crate) fn open<A: App + WithMix + Engine<Frame = MixFrame>>(
    place: Place,
    codec: Arc<dyn FrameCodec<MixFrame>>,
) -> Waiting<'static, Result<Begin<A>, String>> {
    let Connection::Http2(config) = place.connection else { return framed::open(place, codec) };
    let windows = match config.window {
        Window::Estimated => Windows::Adaptive,
        Window::Fixed { bytes } => Windows::Fixed { stream: bytes, connection: bytes },
    };
    Box::pin(async move {
        let (options, listener) = listen(place).await?;
        let begin: Begin<A> = Box::new(move |driver: Driver<A>| {
            let limits = driver.engine().mix().config().limits;
            let hosted = mix::host(&options, windows, limits, listener, driver);
            let links: Box<dyn Links<A>> = Box::new(Linked(hosted.map_err(|error| error.to_string())?));
            Ok(links)
        });
        Ok(begin)
    })
}
