package store

import "time"

// Package is an agent release kept in the store.
type Package struct {
	Digest      string // sha256:…
	Name        string // file name
	Version     string
	Size        int64
	PublishedBy string
	PublishedAt time.Time
}
