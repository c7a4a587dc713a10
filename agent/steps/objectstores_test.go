package steps

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/download"
	"github.com/hostler/hostler/agent/download/downloadtest"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

// stores starts the stand-ins of test/objectstores with one object, and returns their addresses.
func stores(t *testing.T, raw []byte) map[string]string {
	t.Helper()
	program := os.Getenv("HOSTLER_OBJECT_STORES")
	if program == "" {
		t.Skip("HOSTLER_OBJECT_STORES names no program (make test-objectstores)")
	}
	object := filepath.Join(t.TempDir(), "w.bin")
	hosttest.OK(t, os.WriteFile(object, raw, 0o600))
	cmd := exec.Command(program, object)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	hosttest.OK(t, errors.Join(err1, err2, cmd.Start()))
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	at := map[string]string{}
	for lines := bufio.NewScanner(out); len(at) < 2 && lines.Scan(); {
		name, address, _ := strings.Cut(lines.Text(), " ")
		at[name] = address
	}
	return at
}

// cutting is a transport that leads every address to a store, and cuts the first answer off.
type cutting struct {
	*http.Transport
	left    int64 // bytes of the first body
	answers []*http.Response
	came    int64
}

func (c *cutting) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := c.Transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	c.answers = append(c.answers, res)
	res.Body = &cutBody{res.Body, c, len(c.answers) == 1}
	return res, nil
}

type cutBody struct {
	io.ReadCloser
	c   *cutting
	cut bool
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.cut && b.c.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	if b.cut {
		p = p[:min(int64(len(p)), b.c.left)]
	}
	n, err := b.ReadCloser.Read(p)
	b.c.left, b.c.came = b.c.left-int64(n), b.c.came+int64(n)
	return n, err
}

// A file comes from servers that others have written, goes on at the byte where it broke off, and is right. Each answers a
// range with 206 and names a version of the object.
func TestAFileComesFromTheStandInsOfObjectStores(t *testing.T) {
	raw := downloadtest.Content(8, blobSize)
	at := stores(t, raw)
	for kind, version := range map[string]string{"s3": "ETag", "gcs": "X-Goog-Generation"} {
		b := newBlob(t, kind, "models/w.bin")
		b.Raw, b.args["digest"] = raw, downloadtest.Digest(raw)
		c := &cutting{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}, left: 1 << 20}
		c.DialTLSContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", at[kind])
		}
		b.host.Downloads = download.Over(c)
		if kind == "s3" {
			b.args["credential"] = secretOf(t, func() taskcatalog.BlobCredential {
				return taskcatalog.BlobCredential{URLs: map[string]string{"models/w.bin": "https://s3.example/models/w.bin?X-Amz-Signature=x"}}
			})
		}
		k, _ := Lookup("artifact.pull_blob")
		p, err := k.Do(t.Context(), b.step())
		b.brought(p, err)
		if len(c.answers) != 2 || c.answers[1].StatusCode != http.StatusPartialContent || c.came != int64(len(raw)) {
			t.Errorf("%s: %d bytes came in %d answers", kind, c.came, len(c.answers))
			continue
		}
		if got := c.answers[1].Header; got.Get(version) == "" || got.Get("Content-Range") != fmt.Sprintf("bytes %d-%d/%d", 1<<20, len(raw)-1, len(raw)) {
			t.Errorf("%s: the second answer has %v", kind, got)
		}
	}
}
