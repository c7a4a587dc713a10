// Package objectstores has the program serve.go, which serves a file as the object w.bin of the bucket models,
// by two stand-ins of object stores: gofakes3 for S3, and fake-gcs-server for Google's. It prints the address of
// each, and ends when its input ends. make test-objectstores builds it with stores.mod, so that their
// dependencies cannot become dependencies of Hostler.
//
// gofakes3 ignores If-Match, and neither has faults: an object that changes, a source that refuses, stalls or
// lies are those of agent/download/downloadtest.
package objectstores
