// What the libraries need of Node.js 22, for Node.js 20. To be imported before them.
Promise.withResolvers ??= function () {
  let resolve, reject
  const promise = new this((yes, no) => { [resolve, reject] = [yes, no] })
  return { promise, resolve, reject }
}
