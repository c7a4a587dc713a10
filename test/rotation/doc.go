// Package rotation tests a real agent that changes its key at a real broker: two processes, mutual
// TLS, disks, and kill -9 at any moment. Each side's own behaviour is tested beside its code; this
// package tests that the two sides agree.
package rotation
