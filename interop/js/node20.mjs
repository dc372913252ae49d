// Adds functions of Node.js 22 that the libraries need to Node.js 20. Must be imported before them.
Promise.withResolvers ??= function () {
  let resolve, reject
  const promise = new this((yes, no) => { [resolve, reject] = [yes, no] })
  return { promise, resolve, reject }
}
