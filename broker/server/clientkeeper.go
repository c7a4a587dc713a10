package server

import (
	"bytes"
	"context"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker/clientfile"
	"github.com/hostler/hostler/broker/internal/periodic"
)

const (
	clientFile = "client.yaml"
	// keepEvery is how often a failed write of client.yaml is retried, and how often the roots are
	// checked for expiry.
	keepEvery = time.Minute

	cannotKeep = "cannot write the roots in force to client.yaml; the broker tries again; do not finish a rotation of the root before this succeeds"
)

// clientKeeper keeps the roots in force in client.yaml. In a rotation of the root, every user of
// the file must know the new root before the old root goes.
type clientKeeper struct {
	dir   *DataDir
	url   string        // of the operators' listener
	roots func() []byte // the roots in force
	log   *zap.Logger

	mu      sync.Mutex
	written []byte // the roots in the file
}

// write puts the roots into client.yaml, unless the file has the same content already.
func (k *clientKeeper) write() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	roots := k.roots() // under the lock, so that the last writer writes the newest roots
	if bytes.Equal(roots, k.written) {
		return nil
	}
	want := clientfile.File{Broker: k.url, CA: string(roots), TokenFile: tokenFile}
	path := k.dir.join(clientFile)
	if have, err := clientfile.Load(path); err == nil {
		have.TokenFile = filepath.Base(have.TokenFile)
		if *have == want {
			k.written = roots
			return nil
		}
	}
	if err := want.Write(path); err != nil {
		return unusable(k.dir.path, err)
	}
	k.written = roots
	return nil
}

// keep calls write and logs its error, for callers that do not need the result.
func (k *clientKeeper) keep() {
	if err := k.write(); err != nil {
		k.log.Error(cannotKeep, zap.Error(err))
	}
}

func (k *clientKeeper) run(ctx context.Context) error {
	periodic.Work{
		Every: keepEvery, Turn: func(context.Context) error { return k.write() }, Log: k.log, Cannot: cannotKeep,
		Grave: true,
	}.Run(ctx)
	return nil
}
