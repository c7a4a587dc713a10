// Package rotation has a real agent change its key at a real broker: two processes,
// mutual TLS, disks, and kill -9 at any moment. What each side does by itself is
// tested beside it; here is that they mean the same.
package rotation
