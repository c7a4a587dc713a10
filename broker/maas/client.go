package maas

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/canonical/gomaasclient/client"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Options name a region and the key for it.
type Options struct {
	BaseURL string // http(s)://HOST:5240/MAAS
	Key     Key
	CACert  string           // PEM; empty: the system's roots
	Now     func() time.Time // for signatures and the age of lists
	Rand    io.Reader        // nil: crypto/rand
	// Transport is the way to the region; nil: the network.
	Transport http.RoundTripper
}

// Region is one MAAS region, as seen with one key. It is safe for concurrent use.
type Region struct {
	base      string
	api       *url.URL
	key       Key
	Now       func() time.Time
	rand      io.Reader
	transport http.RoundTripper
	patient   http.RoundTripper // for calls that wait for a BMC, so that they delay no others
	roster    *roster[Listing]
	bmcRoster *roster[map[string]string]
	// waitRoster lists the machines that runs wait for.
	waitRoster *roster[Listing]
	waits      *awaitedIDs
}

// Open makes a Region. It does not connect. Code: site_invalid.
func Open(o Options) (*Region, error) {
	base := strings.TrimRight(o.BaseURL, "/")
	api, err := url.Parse(base + "/api/2.0/")
	if err != nil || api.Host == "" {
		return nil, broker.Errorf(broker.Invalid, "site_invalid", "cannot use the address of MAAS: not a URL")
	}
	r := &Region{
		base: base, api: api, key: o.Key, Now: o.Now, rand: o.Rand, transport: o.Transport,
		roster: &roster[Listing]{now: o.Now}, bmcRoster: &roster[map[string]string]{now: o.Now},
		waitRoster: &roster[Listing]{now: o.Now}, waits: &awaitedIDs{at: map[string]time.Time{}},
	}
	if r.rand == nil {
		r.rand = rand.Reader
	}
	if r.transport == nil {
		if r.transport, err = network(o.CACert); err == nil {
			r.patient, err = network(o.CACert)
		}
		return r, err
	}
	r.patient = r.transport
	return r, nil
}

// mostConnections limits concurrent connections of each of the two kinds: a region serves 16
// requests.
const mostConnections = 8

// network reaches regions over TLS or without, and never through a proxy: on http a proxy could
// read the token.
func network(caCert string) (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if caCert != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(caCert)) {
			return nil, broker.Errorf(broker.Invalid, "site_invalid", "cannot use ca_cert: it contains no certificate")
		}
	}
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSClientConfig:     config,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxConnsPerHost:     mostConnections,
		IdleConnTimeout:     30 * time.Second,
	}, nil
}

// kind is a class of calls: the time limit, the maximum size of an answer, and whether the call
// waits for a BMC.
type kind struct {
	limit time.Duration
	bytes int64
	waits bool
}

var (
	looks    = kind{30 * time.Second, 4 << 20, false}  // reads one thing
	lists    = kind{2 * time.Minute, 256 << 20, false} // reads machines, each about 9 kB
	changes  = kind{60 * time.Second, 4 << 20, false}  // changes records
	switches = kind{6 * time.Minute, 4 << 20, true}    // waits for a BMC before the answer
)

// noKey is the key that libraries get: the RoundTripper signs.
const noKey = "none:none:none"

// call runs one operation of gomaasclient.
func call[T any](ctx context.Context, r *Region, op string, k kind, f func(*client.Client) (T, error)) (T, error) {
	out, _, err := answered(ctx, r, op, k, f)
	return out, err
}

// answered is call, and also returns the raw answer.
func answered[T any](ctx context.Context, r *Region, op string, k kind, f func(*client.Client) (T, error)) (T, *answer, error) {
	ctx, cancel := context.WithTimeout(ctx, k.limit)
	defer cancel()
	b := &bound{region: r, ctx: ctx, kind: k}
	c, err := client.GetClientWithTransport(r.base, noKey, "2.0", b)
	var out T
	if err == nil {
		out, err = f(c)
	}
	return out, &b.last, b.judge(op, err)
}

// raw makes a call for which gomaasclient has no method, or whose answer does not fit its types.
func (r *Region) raw(ctx context.Context, op string, k kind, method, at, verb string, params url.Values) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, k.limit)
	defer cancel()
	b := &bound{region: r, ctx: ctx, kind: k}
	target := r.api.JoinPath(at, "/")
	query, body := url.Values{}, io.Reader(nil)
	if method == http.MethodGet {
		for name, values := range params {
			query[name] = values
		}
	} else {
		body = strings.NewReader(params.Encode())
	}
	if verb != "" {
		query.Set("op", verb)
	}
	target.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, target.String(), body)
	if err == nil {
		if body != nil {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		_, err = b.RoundTrip(req)
	}
	if err := b.judge(op, err); err != nil {
		return nil, err
	}
	return b.last.body, nil
}

// notMAAS is the error of an answer that cannot be read.
func notMAAS(op string, changes bool) error {
	e := &Error{
		Class: Unavailable, Op: op, Status: http.StatusOK,
		Detail: "the answer does not come from MAAS (check for a proxy in between)",
	}
	if changes {
		e.Class = UnknownOutcome
	}
	return e
}

func (r *Region) nonce() (string, error) {
	raw := make([]byte, 16)
	if _, err := io.ReadFull(r.rand, raw); err != nil {
		return "", err
	}
	return hex.EncodeToString(raw), nil
}

var SystemIDForm = lazyregexp.New(`^[a-z0-9]{6}$`)

// checkID refuses an invalid machine id: the id becomes part of a path.
func checkID(op, id string) error {
	if !SystemIDForm.MatchString(id) {
		return &Error{Class: Invalid, Op: op, Detail: "not a system id of MAAS"}
	}
	return nil
}
