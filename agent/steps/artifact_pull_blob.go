package steps

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/hostler/hostler/agent/download"
	"github.com/hostler/hostler/agent/uplink"
	"github.com/hostler/hostler/taskcatalog"
)

// renewBefore is how long before its end a credential is renewed.
const renewBefore = 30 * time.Second

// blobPulled looks whether the file has the content. The file is read whole: its name proves nothing.
func blobPulled(ctx context.Context, s *Step) (Proof, bool, error) {
	root, err := s.Host.Machine.Below(s.Args.Text("root"))
	if err != nil {
		return Proof{}, false, absent(err)
	}
	defer root.Close()
	proof, done, err := hasDigest(ctx, s, root.Open, s.Args.Text("name"))
	proof.Output = s.place()
	return proof, done, err
}

// pullBlob brings the file: to a name of its own first, and to its own name once the digest is right.
func pullBlob(ctx context.Context, s *Step) (Proof, error) {
	if s.Host.Downloads == nil || s.Plan.Artifacts == nil {
		return Proof{}, taskcatalog.Errorf(taskcatalog.CodeStepUnsupported, "cannot pull: this agent has no downloads, or the plan no bounds for them")
	}
	source, err := parseBlobSource(s.Args.Text("from"), s.Args.Text("source"))
	if err != nil {
		return Proof{}, err
	}
	requests := &blobRequests{source: source, secret: s.Args.Secret("credential"), now: s.Host.Now}
	root, err := s.Host.Machine.MakeBelow(s.Args.Text("root"))
	if err != nil {
		return Proof{}, noLink(err)
	}
	defer root.Close()
	size, err := target{root, s.Args.Text("name")}.pull(ctx, &download.Pull{
		Request: requests.next, Do: s.Host.Downloads.HTTP().Do,
		Digest: s.Args.Text("digest"), Most: s.Plan.Artifacts.MaxBytes,
		Checkpoint: s.Checkpoint, Progress: s.bytes(), Now: s.Host.Now,
	})
	if err != nil {
		return Proof{}, err
	}
	return Proof{Output: s.place(), Digest: s.Args.Text("digest"), Bytes: size}, nil
}

// blobRequests makes the requests for one file.
type blobRequests struct {
	source blobSource
	secret *Secret
	now    func() time.Time
}

// next returns the next request. The credential is read anew for each.
func (b *blobRequests) next(ctx context.Context, fresh bool) (*http.Request, error) {
	c, err := b.credential()
	if err != nil {
		return nil, download.Lasting(err)
	}
	if b.secret != nil && (fresh || !c.ExpiresAt.IsZero() && !b.now().Add(renewBefore).Before(c.ExpiresAt)) {
		if err := b.secret.Renew(ctx); err != nil {
			if r, ok := uplink.RefusalOf(err); ok && r.Permanent() {
				return nil, download.Lasting(err)
			}
			return nil, download.Waiting(err)
		}
		if c, err = b.credential(); err != nil {
			return nil, download.Lasting(err)
		}
	}
	address, err := b.source.address(c)
	if err != nil {
		return nil, download.Lasting(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, download.Lasting(taskcatalog.Errorf(taskcatalog.CodeSourceRefused, "the address of the source cannot be used"))
	}
	if b.source.kind == sourceGCS {
		// Without it, Google unpacks what is stored packed, and ignores ranges.
		req.Header.Set("Accept-Encoding", "gzip")
	}
	req.Header.Set("User-Agent", "hostler-agent")
	if c.Authorization != "" {
		req.Header.Set("Authorization", c.Authorization)
	}
	return req, nil
}

// credential decodes the credential; without one it is empty.
func (b *blobRequests) credential() (c taskcatalog.BlobCredential, err error) {
	if b.secret == nil {
		return c, nil
	}
	err = b.secret.Use(func(value []byte) error {
		if json.Unmarshal(value, &c) != nil || len(c.Authorization) > taskcatalog.MaxBlobAuthorization ||
			c.URLs == nil && c.Authorization == "" {
			return taskcatalog.Errorf(taskcatalog.CodeSourceRefused, "the credential that the broker minted cannot be used for a file")
		}
		return nil
	})
	return c, err
}
