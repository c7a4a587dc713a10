package download

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

const some = 3 << 20

func hasSuffix(all []string, want ...string) bool {
	return slices.EqualFunc(all, want, strings.HasSuffix)
}

func TestAPullGoesOnWhereItBrokeOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPuller(t, content(1, some))
		p.Faults = []http.HandlerFunc{p.CutAfter(1 << 20), p.CutAfter(1 << 19), status(503), p.CutAfter(0)}
		p.whole()
		if !hasSuffix(p.Asked, "/file  ", ` bytes=1048576- "one"`, ` bytes=1572864- "one"`, ` bytes=1572864- "one"`, ` bytes=1572864- "one"`) {
			t.Errorf("%q", p.Asked)
		}
		if p.Sent != some {
			t.Errorf("the source sent %d bytes of %d", p.Sent, some)
		}
	})
}

// A worker that appends whatever answers corrupts the file.
func TestAnAnswer200ToARangeBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPuller(t, content(1, some))
		p.Faults = []http.HandlerFunc{p.CutAfter(1 << 20), func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Range")
			p.Serve(w, r)
		}}
		p.whole()
	})
}

func TestAChangedObjectIsNotMixed(t *testing.T) {
	ignores := func(p *puller) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { r.Header.Del("If-Range"); p.Serve(w, r) }
	}
	for name, c := range map[string]struct {
		etag string
		size int
		then func(p *puller) http.HandlerFunc
	}{
		"the source honours If-Range": {`"two"`, some, func(p *puller) http.HandlerFunc { return p.Serve }},
		"the source ignores If-Range": {`"two"`, some, ignores},
		"only the length differs":     {"", some + 1, ignores},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPuller(t, content(1, some))
				wanted := content(2, c.size)
				p.digest = digestOf(wanted)
				p.Faults = []http.HandlerFunc{p.CutAfter(1 << 20), func(http.ResponseWriter, *http.Request) {
					p.Raw, p.ETag = wanted, c.etag
					panic(http.ErrAbortHandler)
				}}
				p.Always = c.then(p)
				p.whole()
			})
		})
	}
}

// A source without validators may change to a content of the same length: the digest shows it, and the content
// is fetched whole once.
func TestAMixOfTwoContentsIsFetchedWholeOnce(t *testing.T) {
	for name, c := range map[string]struct {
		wanted byte
		code   taskcatalog.Code
	}{
		"the new content is wanted": {2, ""},
		"neither is":                {3, taskcatalog.CodeDigestMismatch},
	} {
		for _, restart := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				p := newPuller(t, content(1, some))
				p.ETag = ""
				p.digest = digestOf(content(c.wanted, some))
				if restart {
					p.interrupt() // the checkpoint says what has fed the hash
					p.Raw, p.Asked = content(2, some), nil
				} else {
					p.Faults = []http.HandlerFunc{p.CutAfter(1 << 20), func(http.ResponseWriter, *http.Request) {
						p.Raw, p.Asked = content(2, some), nil
						panic(http.ErrAbortHandler)
					}}
				}
				_, err := p.run(t.Context())
				if taskcatalog.CodeOf(err, "") != c.code || (err == nil) != (c.code == "") || !hasSuffix(p.Asked, " bytes=1048576- ", "/file  ") || len(p.Asked) != 2 {
					t.Errorf("%s (after a restart: %v): %v, asked for %q", name, restart, err, p.Asked)
				}
				if got, err := os.ReadFile(p.file); c.code == "" && !bytes.Equal(got, p.Raw) {
					t.Errorf("%s: the file has something else: %v", name, err)
				}
			})
		}
	}
}

// A checkpoint of bytes that are no longer in the file would end in a wrong digest.
func TestAPullThatIsKilledAfterItBeganAnewGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPuller(t, content(1, some))
		p.ETag = "" // otherwise the source itself sees that the next range would be of another content
		p.interrupt()
		p.Raw = content(2, some)
		p.digest = digestOf(p.Raw)
		p.keeps.raw = bytes.Replace(p.keeps.raw, []byte(digestOf(content(1, some))), []byte(p.digest), 1) // the object changed meanwhile
		p.Faults = []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) { r.Header.Del("Range"); p.Serve(w, r) }}
		var st state
		p.keeps.check = func(raw []byte) { _ = json.Unmarshal(raw, &st) }
		p.keeps.before = func(int) error {
			if st.Offset > 0 {
				return errKilled
			}
			return nil
		}
		if _, err := p.run(t.Context()); !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		p.keeps.before = nil
		p.whole()
	})
}

// A source that sent something else for a while leaves bytes behind the checkpoint.
func TestBytesBehindTheCheckpointGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPuller(t, content(1, some))
		p.interrupt()
		f, err := os.OpenFile(p.file, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(content(3, 2*some)); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		p.whole()
		if p.Sent > some+1000 {
			t.Errorf("%d bytes", p.Sent)
		}
	})
}

func TestACheckpointNeverNamesMoreThanIsOnTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPuller(t, content(1, 80<<20))
		p.Faults = []http.HandlerFunc{p.CutAfter(1 << 20), p.CutAfter(1 << 20)}
		p.keeps.check = func(raw []byte) {
			var st state
			p.disk.mu.Lock()
			defer p.disk.mu.Unlock()
			if err := json.Unmarshal(raw, &st); err != nil || st.Offset > p.disk.synced {
				t.Errorf("saved %d bytes, and %d are on the disk: %v", st.Offset, p.disk.synced, err)
			}
		}
		p.whole()
		if p.keeps.saves < 5 {
			t.Errorf("%d saves", p.keeps.saves)
		}
	})
}

// The bridge to Hugging Face's store names no version of what it sends. The digest decides.
func TestASourceWithoutValidatorsIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPuller(t, content(1, some))
		p.ETag = ""
		p.Faults = []http.HandlerFunc{p.CutAfter(1 << 20)}
		p.whole()
		if !hasSuffix(p.Asked, "/file  ", " bytes=1048576- ") {
			t.Errorf("%q", p.Asked)
		}
	})
}

func TestAWeakTagIsNoValidator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPuller(t, content(1, some))
		p.ETag = `W/"one"`
		p.Faults = []http.HandlerFunc{p.CutAfter(1 << 20)}
		p.whole()
		if !hasSuffix(p.Asked, "/file  ", " bytes=1048576- ") {
			t.Errorf("%q", p.Asked)
		}
	})
}

func TestAnotherRangeIsNotAppended(t *testing.T) {
	for _, header := range []string{
		fmt.Sprintf("bytes 0-%d/%d", some-1, some), fmt.Sprintf("bytes 1048577-%d/%d", some-1, some), "", "bytes */5", "bytes 1048576-9/3145728",
		"bytes 1048576-3145727/3", "items 1048576-3145727/3145728", "bytes 1048576-3145727",
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPuller(t, content(1, some))
			wrong := func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Range") == "" {
					p.Serve(w, r)
					return
				}
				w.Header().Set("Content-Range", header)
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write(p.Raw[:100])
			}
			p.Faults = []http.HandlerFunc{p.CutAfter(1 << 20)}
			p.Always = wrong
			p.whole()
		})
	}
}

func TestAnAnswer416IsHeldAgainstTheLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The length was not known, and the source broke off after the last byte.
		p := newPuller(t, content(1, some))
		p.Faults = []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", p.ETag)
			_, _ = w.Write(p.Raw)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}}
		p.whole()
		if len(p.Asked) != 2 || p.Sent > some+100 { // the text of the 416 is among them
			t.Errorf("%q, %d bytes", p.Asked, p.Sent)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		// The object is shorter now.
		p := newPuller(t, content(1, some))
		wanted := content(2, 1<<19)
		p.digest = digestOf(wanted)
		p.Faults = []http.HandlerFunc{p.CutAfter(1 << 20), func(w http.ResponseWriter, r *http.Request) {
			p.Raw, p.ETag = wanted, ""
			r.Header.Del("If-Range")
			p.Serve(w, r)
		}}
		p.whole()
	})
}

func TestAnExpiredAddressIsRenewedAndThePullGoesOn(t *testing.T) {
	for _, code := range []int{401, 403, 400} {
		synctest.Test(t, func(t *testing.T) {
			p := newPuller(t, content(1, some))
			p.token = "TOKEN"
			p.Faults = []http.HandlerFunc{p.CutAfter(1 << 20), status(code)}
			p.whole()
			if p.fresh != 1 || p.Sent != some || p.Headers[2].Get("Authorization") != "Bearer TOKEN+" {
				t.Errorf("%d credentials, %d bytes", p.fresh, p.Sent)
			}
		})
	}
}

func TestARefusalWithAFreshCredentialStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPuller(t, content(1, some))
		p.token, p.Always = "TOKEN", status(403)
		_, err := p.run(t.Context())
		if taskcatalog.CodeOf(err, "") != taskcatalog.CodeSourceRefused || p.fresh != 1 || strings.Contains(err.Error(), "TOKEN") {
			t.Errorf("%d credentials: %v", p.fresh, err)
		}
	})
}

func TestBytesAreThoseThatAreStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var packed strings.Builder
		z := gzip.NewWriter(&packed)
		_, _ = z.Write([]byte(strings.Repeat("weights ", 1000)))
		_ = z.Close()
		p := newPuller(t, []byte(packed.String()))
		p.Always = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			p.Serve(w, r)
		}
		p.whole()
		if p.Headers[0].Get("Accept-Encoding") != "identity" {
			t.Errorf("%v", p.Headers[0])
		}
	})
}

func TestAWrongDigestIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPuller(t, content(1, some))
		p.digest = digestOf([]byte("other"))
		_, err := p.run(t.Context())
		if taskcatalog.CodeOf(err, "") != taskcatalog.CodeDigestMismatch || len(p.Asked) != 1 {
			t.Errorf("%q: %v", p.Asked, err)
		}
		p.digest = digestOf(p.Raw)
		p.whole() // what the checkpoint had is not used
		if p.Sent != 2*some {
			t.Errorf("%d bytes", p.Sent)
		}
	})
}

func TestMoreThanThePlanPermitsIsNotReceived(t *testing.T) {
	for name, lie := range map[string]func(p *puller) http.HandlerFunc{
		"said": func(p *puller) http.HandlerFunc { return p.Serve },
		"not said": func(p *puller) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				_ = http.NewResponseController(w).Flush()
				for range 100 {
					if _, err := w.Write(p.Raw); err != nil {
						return
					}
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPuller(t, content(1, some))
				p.most = 1 << 20
				p.Always = lie(p)
				_, err := p.run(t.Context())
				if taskcatalog.CodeOf(err, "") != taskcatalog.CodeArtifactTooBig || len(p.Asked) != 1 || p.Sent > 5<<20 {
					t.Errorf("%d bytes: %v", p.Sent, err)
				}
				if info, _ := os.Stat(p.file); info.Size() > 1<<20+1 {
					t.Errorf("%d bytes on the disk", info.Size())
				}
			})
		})
	}
}

func TestAFileSystemIsNotFilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPuller(t, content(1, some))
		p.interrupt()
		p.room = some - 1<<20 - 1
		asked := len(p.Asked)
		if _, err := p.run(t.Context()); taskcatalog.CodeOf(err, "") != taskcatalog.CodeDiskFull || !strings.Contains(err.Error(), "room for") || len(p.Asked) != asked+1 || p.Sent > 2<<20 {
			t.Errorf("%d bytes: %v", p.Sent, err)
		}
		p.room++
		p.whole()
	})
}

func TestASizeThatIsNotTheContentsIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPuller(t, content(1, some))
		p.size = some + 1
		if _, err := p.run(t.Context()); taskcatalog.CodeOf(err, "") != taskcatalog.CodeDigestMismatch || p.Sent > 1<<20 {
			t.Errorf("%d bytes: %v", p.Sent, err)
		}
	})
}

// Slowloris: a source that keeps the connection and sends almost nothing.
func TestASourceThatStallsIsLeft(t *testing.T) {
	for name, stall := range map[string]http.HandlerFunc{
		"before the header": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"after the header": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(some))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
		"a byte a second": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(some))
			for _, b := range content(1, some) {
				_, _ = w.Write([]byte{b})
				_ = http.NewResponseController(w).Flush()
				select {
				case <-time.After(time.Second):
				case <-r.Context().Done():
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPuller(t, content(1, some))
				p.Faults = []http.HandlerFunc{stall}
				began := time.Now()
				p.whole()
				if took := time.Since(began); took < pace || took > pace+5*time.Second {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

func TestPatienceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPuller(t, content(1, some))
		p.Always = func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }
		began := time.Now()
		_, err := p.run(t.Context())
		took := time.Since(began)
		if err == nil || taskcatalog.CodeOf(err, "") != "" || took < patience || took > patience+2*time.Minute {
			t.Errorf("after %s: %v", took, err)
		}
		if strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "hub.example") {
			t.Errorf("the error has the address: %v", err)
		}
	})
}

func TestASourceSaysWhenToComeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPuller(t, content(1, some))
		later := func(after string) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", after)
				w.WriteHeader(http.StatusTooManyRequests)
			}
		}
		p.Faults = []http.HandlerFunc{later("47"), later("86400")}
		began := time.Now()
		p.whole()
		if took := time.Since(began); took < 47*time.Second+maxRetryAfter || took > 50*time.Second+maxRetryAfter {
			t.Errorf("after %s", took)
		}
	})
}

func TestWhatIsNotThereIsNotWaitedFor(t *testing.T) {
	for _, code := range []int{404, 410, 405, 304} {
		synctest.Test(t, func(t *testing.T) {
			p := newPuller(t, content(1, some))
			p.Always = status(code)
			if _, err := p.run(t.Context()); taskcatalog.CodeOf(err, "") != taskcatalog.CodeSourceRefused || len(p.Asked) != 1 {
				t.Errorf("%d: %v", code, err)
			}
		})
	}
}

func TestACancelEndsThePullAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPuller(t, content(1, some))
		stop := errors.New("canceled by a person")
		ctx, cancel := context.WithCancelCause(t.Context())
		p.Faults = []http.HandlerFunc{p.CutAfter(1 << 20), func(_ http.ResponseWriter, r *http.Request) {
			cancel(stop)
			<-r.Context().Done()
		}}
		began := time.Now()
		if _, err := p.run(ctx); !errors.Is(err, stop) || time.Since(began) > 5*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		p.whole()
		if p.Sent != some {
			t.Errorf("%d bytes", p.Sent)
		}
	})
}

// killed stands for a machine that stops: nothing is written any more.
var errKilled = errors.New("killed")

// The pull is killed at each save in turn, before it and after it. The next one goes on.
func TestAPullThatIsKilledAtACheckpointGoesOn(t *testing.T) {
	raw := content(1, 80<<20) // of more than two checkpoints
	for at := 1; ; at++ {
		for _, after := range []bool{false, true} {
			reached := false
			synctest.Test(t, func(t *testing.T) {
				p := newPuller(t, raw)
				kill := func(save int) error {
					if save < at {
						return nil
					}
					reached = true
					return errKilled
				}
				if p.keeps.before = kill; after {
					p.keeps.before, p.keeps.after = nil, kill
				}
				if _, err := p.run(t.Context()); reached && !errors.Is(err, errKilled) {
					t.Fatalf("at save %d: %v", at, err)
				}
				p.keeps.before, p.keeps.after = nil, nil
				sent := p.Sent
				had := struct{ Offset int64 }{}
				if st, _, ok := resume(p.keeps.raw, p.digest, mustStat(t, p.file)); ok {
					had.Offset = st.Offset
				}
				p.whole()
				if again := p.Sent - sent; again != int64(len(raw))-had.Offset {
					t.Errorf("at save %d: %d bytes came again, and the checkpoint had %d of %d", at, again, had.Offset, len(raw))
				}
				sent = p.Sent
				p.whole() // once more after its end: nothing is asked for
				if p.Sent != sent {
					t.Errorf("%d bytes were asked for after the end", p.Sent-sent)
				}
			})
			if !reached && at < 4 {
				t.Fatalf("there are only %d saves", at-1)
			}
			if !reached {
				return
			}
		}
	}
}

func mustStat(t *testing.T, name string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// What lies in the file and not in the checkpoint counts for nothing, nor does a checkpoint of another
// file or digest.
func TestACheckpointIsOfItsFileAndDigest(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, p *puller){
		"another file under the name": func(t *testing.T, p *puller) {
			other := p.file + ".other"
			if err := errors.Join(os.WriteFile(other, make([]byte, some), 0o600), os.Rename(other, p.file)); err != nil {
				t.Fatal(err)
			}
		},
		"a shorter file":  func(t *testing.T, p *puller) { _ = os.Truncate(p.file, 7) },
		"no checkpoint":   func(_ *testing.T, p *puller) { p.keeps.raw = nil },
		"a damaged one":   func(_ *testing.T, p *puller) { p.keeps.raw = p.keeps.raw[:40] },
		"another content": func(_ *testing.T, p *puller) { p.Raw = content(9, some); p.digest, p.ETag = digestOf(p.Raw), "" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPuller(t, content(1, some))
				p.interrupt()
				change(t, p)
				p.whole()
				if last := p.Asked[len(p.Asked)-1]; !strings.HasSuffix(last, "/file  ") {
					t.Errorf("asked for %q", last)
				}
			})
		})
	}
}
