package download

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hostler/hostler/agent/download/downloadtest"
	"github.com/hostler/hostler/taskcatalog"
)

func nobody(context.Context) ([]netip.Addr, error) { return nil, nil }

func TestAddressesWhereNoArtifactIs(t *testing.T) {
	for address, forbidden := range map[string]bool{
		"127.0.0.1": true, "127.8.9.1": true, "::1": true, "0.0.0.0": true, "::": true, "::127.0.0.1": true, "::ffff:127.0.0.1": true,
		"::ffff:169.254.169.254": true, "169.254.169.254": true, "fe80::1%eth0": true, "224.0.0.1": true, "ff02::1": true, "255.255.255.255": true,
		"100.100.100.200": true, "168.63.129.16": true, "fd00:ec2::254": true, "fd20:ce::254": true, "64:ff9b::7f00:1": true, "64:ff9b::a9fe:a9fe": true,
		"2002:7f00:1::": true, "2002:a9fe:a9fe::1": true, "2001:0:1::1": true, "fec0::1": true, "0.1.2.3": true,
		"10.0.0.5": false, "192.168.1.1": false, "172.16.0.1": false, "100.64.0.1": false, "fd12::1": false, "52.216.1.1": false,
		"2600:9000::1": false, "64:ff9b::34d8:101": false, "2001:4860:4860::8888": false,
	} {
		if got := forbiddenAddress(netip.MustParseAddr(address)); got != forbidden {
			t.Errorf("%s: %v, want %v", address, got, forbidden)
		}
	}
}

func TestTheBrokerIsNoSource(t *testing.T) {
	broker := func(context.Context) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("fd12::5")}, nil
	}
	for address, want := range map[string]taskcatalog.Code{
		"10.0.0.5:443": taskcatalog.CodeSourceRefused, "10.0.0.5:9000": taskcatalog.CodeSourceRefused, "[fd12::5]:443": taskcatalog.CodeSourceRefused,
		"[::ffff:10.0.0.5]:443": taskcatalog.CodeSourceRefused, "10.0.0.6:443": "", "not an address": taskcatalog.CodeSourceRefused,
	} {
		if err := check(t.Context(), address, broker); taskcatalog.CodeOf(err, "") != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	unknown := func(context.Context) ([]netip.Addr, error) { return nil, errors.New("no such host") }
	if err := check(t.Context(), "10.0.0.6:443", unknown); !errors.Is(err, errBroker) {
		t.Errorf("%v", err)
	}
}

func TestTheNodeItselfIsNoSource(t *testing.T) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		ip, _ := netip.AddrFromSlice(a.(*net.IPNet).IP)
		if err := check(t.Context(), netip.AddrPortFrom(ip, 443).String(), nobody); taskcatalog.CodeOf(err, "") != taskcatalog.CodeSourceRefused {
			t.Errorf("%s: %v", ip, err)
		}
	}
}

// The client refuses the address to which a name leads, not the name.
func TestANameThatLeadsToLoopbackGetsNoConnection(t *testing.T) {
	touched := make(chan struct{}, 8)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			touched <- struct{}{}
		}
	}
	server.StartTLS()
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	for _, host := range []string{"localhost", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+host+":"+port+"/", nil)
		if _, err := New(nobody).HTTP().Do(req); taskcatalog.CodeOf(err, "") != taskcatalog.CodeSourceRefused {
			t.Errorf("%s: %v", host, err)
		} else if masked := Masked(err); strings.Contains(masked.Error(), port) {
			t.Errorf("%s: %v", host, masked)
		}
	}
	select {
	case <-touched:
		t.Error("a connection reached the server")
	default:
	}
}

// A redirect is checked as the first address is: by a client whose first host is a pipe, and whose other
// hosts are reached as in the field.
func TestARedirectReachesNoMoreThanTheFirstAddress(t *testing.T) {
	secret := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("the node's own")) }))
	defer secret.Close()
	secrets := httptest.NewTLSServer(secret.Config.Handler)
	defer secrets.Close()
	u, _ := url.Parse(secrets.URL)
	for _, to := range []string{
		secret.URL, secrets.URL, "https://localhost:" + u.Port() + "/", "https://[::1]:" + u.Port() + "/", "http://cdn.example/", "https://169.254.169.254/latest/meta-data/",
		"ftp://cdn.example/", "file:///etc/shadow", "https://[fd00:ec2::254]/",
	} {
		s := downloadtest.New(t, nil)
		s.Always = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
		field := New(nobody).http.Transport.(httpsOnly).next.(*http.Transport)
		pipe := s.Transport()
		field.DisableKeepAlives = true
		client := Over(byHost{"hub.example": pipe, "": field})
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://hub.example/file", nil)
		res, err := client.HTTP().Do(req)
		if taskcatalog.CodeOf(err, "") != taskcatalog.CodeSourceRefused {
			t.Errorf("%s: %v %v", to, res, err)
		}
	}
}

type byHost map[string]http.RoundTripper

func (b byHost) RoundTrip(req *http.Request) (*http.Response, error) {
	if t, ok := b[req.URL.Hostname()]; ok {
		return t.RoundTrip(req)
	}
	return b[""].RoundTrip(req)
}

func TestRedirectsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPuller(t, nil)
		p.Always = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/again", http.StatusFound) }
		if _, err := p.run(t.Context()); taskcatalog.CodeOf(err, "") != taskcatalog.CodeSourceRefused || len(p.Asked) != maxRedirects+1 {
			t.Errorf("%q %v", p.Asked, err)
		}
	})
}

// The hub redirects to its store: Authorization and the hub's address stay with the hub, also where the store is a
// subdomain of the hub, and where the store leads back.
func TestAuthorizationStaysWithItsHost(t *testing.T) {
	for _, path := range [][]string{
		{"https://cdn.example/stored"},
		{"https://store.hub.example/stored"},
		{"https://hub.example:8443/stored"},
		{"https://user:password@hub.example:444/stored"},
		{"https://cdn.example/there", "https://hub.example/stored"},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPuller(t, content(1, some))
			p.token = "TOKEN"
			p.Always = func(w http.ResponseWriter, r *http.Request) {
				at := strings.Count(r.URL.Path, "/stored") + 2*strings.Count(r.URL.Path, "/there")
				switch {
				case at == 1:
					p.Serve(w, r)
				case at == 2:
					http.Redirect(w, r, path[1], http.StatusFound)
				default:
					http.Redirect(w, r, path[0], http.StatusFound)
				}
			}
			p.whole()
			if got := p.Headers[0].Get("Authorization"); got != "Bearer TOKEN" {
				t.Errorf("the hub got %q", got)
			}
			for _, h := range p.Headers[1:] {
				if h.Get("Authorization") != "" || h.Get("Referer") != "" {
					t.Errorf("by %s: Authorization %q, Referer %q", path, h.Get("Authorization"), h.Get("Referer"))
				}
			}
		})
	}
}

// Hugging Face: a redirect with the digest in X-Linked-Etag, to a store that names no version.
func TestTheHubsRedirectIsFollowedAnewEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPuller(t, content(1, some))
		p.token, p.ETag = "TOKEN", ""
		stored := 0
		p.Always = func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/file" {
				w.Header().Set("X-Linked-Etag", `"`+strings.TrimPrefix(p.digest, "sha256:")+`"`)
				w.Header().Set("ETag", `"a-git-hash"`)
				http.Redirect(w, r, "https://cas-bridge.example/stored?Expires=1&Signature=2", http.StatusFound)
				return
			}
			switch stored++; stored {
			case 1:
				p.CutAfter(1<<20)(w, r)
			case 2:
				w.WriteHeader(http.StatusForbidden) // its address has expired
			default:
				p.Serve(w, r)
			}
		}
		p.whole()
		if p.Sent > some+1000 {
			t.Errorf("%d bytes", p.Sent)
		}
	})
}

func TestADigestThatTheHubAnnouncesIsCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPuller(t, content(1, some))
		p.Always = func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/file" {
				w.Header().Set("X-Linked-Etag", `"`+strings.Repeat("ab", 32)+`"`)
				http.Redirect(w, r, "https://cdn.example/stored", http.StatusFound)
				return
			}
			p.Serve(w, r)
		}
		if _, err := p.run(t.Context()); taskcatalog.CodeOf(err, "") != taskcatalog.CodeDigestMismatch || p.Sent > 1<<20 {
			t.Errorf("%d bytes: %v", p.Sent, err)
		}
	})
}
