// Package download brings one file over HTTPS to the node, and goes on where a transfer broke off. The
// main types are Client, which decides where requests may go, and Pull, which is one file.
//
// # Model
//
// A Pull has a digest, an open file and a checkpoint. It sends GET requests, one after another, until
// the file is whole:
//
//	answer 206 from the offset on        append
//	answer 200                           empty the file, begin anew
//	answer 416                           whole if the length is the offset; otherwise begin anew
//	another validator or another length  empty the file, begin anew
//	any other range                      ask for the whole content
//	401, 403                             ask for a fresh credential, go on from the same offset
//	408, 425, 429, 5xx, a broken answer  wait, go on from the same offset
//	anything else                        source_refused
//
// The checkpoint has the offset and the state of the hash at the offset. It is saved after the data up
// to the offset is on the disk. A resume therefore reads nothing again, neither from the source nor
// from the disk. Bytes of the file beyond the offset count as not received.
//
// Sources differ in what names a version of their content: an ETag, a time, or nothing at all. The
// package sends If-Range where it can, and compares what the answer names. Only the digest decides.
//
// # Rules
//
//   - A request goes to an https address. It reaches no address of the node itself, no loopback,
//     link-local, multicast or metadata address, and no address of the broker. Client checks the address
//     of each connection, after DNS and after redirects. Private networks are permitted: object stores
//     are there.
//   - Proxies of the environment are not used. A proxy would resolve the names, and nobody would check
//     the addresses.
//   - Authorization goes to the host of the first request alone. A redirect gets no Referer: the address
//     may itself give access to the data.
//   - The bytes are those that the source stores. Nothing is unpacked.
//   - No more than the permitted bytes are received, whatever the source claims.
//   - A source that sends almost nothing counts as broken.
//   - No error contains an address, a header or a text of the source.
//
// The package knows neither steps nor kinds of sources.
package download
