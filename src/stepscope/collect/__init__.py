"""World → events. One file a source: an object with `name`, `start(recorder)` and `stop()`."""
