package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/secrets"
)

const (
	sendIn    = 10 * time.Second // for everything, from the look-up to the head of the answer
	maxHeader = 16 << 10
)

// Sender sends single requests. It is safe for concurrent use.
type Sender struct {
	secrets secrets.Keeper
	client  *http.Client
	guard   *Guard
	now     func() time.Time
	timeout time.Duration
}

// SenderOptions join a Sender.
type SenderOptions struct {
	Config  Config
	Secrets secrets.Keeper
	Now     func() time.Time
	// LookUp and Timeout replace the system's resolver and the ten seconds in tests.
	LookUp  func(ctx context.Context, host string) ([]netip.Addr, error)
	Timeout time.Duration
}

// NewSender returns a sender. Code: config_invalid.
func NewSender(o SenderOptions) (*Sender, error) {
	guard, err := o.Config.networks()
	if err != nil {
		return nil, err
	}
	guard.LookUp = o.LookUp
	roots, err := o.Config.roots()
	if err != nil {
		return nil, err
	}
	s := &Sender{secrets: o.Secrets, guard: &guard, now: o.Now, timeout: cmp.Or(o.Timeout, sendIn)}
	s.client = &http.Client{
		Transport: &http.Transport{ // without Proxy: no proxy of the environment
			DialContext: guard.dial, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
			DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
			TLSHandshakeTimeout: s.timeout, // a handshake outlasts the request that began it
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s, nil
}

// CheckHost refuses a host that the broker would not send to. It is checked again at each
// connection. Code: webhook_address_refused.
func (s *Sender) CheckHost(ctx context.Context, host string) error {
	_, err := s.guard.Resolve(ctx, host)
	return err
}

// Send sends an event of a webhook's project to its endpoint, and returns nil if the endpoint took
// it. Codes: webhook_address_refused, webhook_certificate_refused, webhook_unreachable, webhook_timeout,
// webhook_refused, webhook_redirected, webhook_gone, webhook_secret_missing, and those of
// secrets.Unreachable.
func (s *Sender) Send(ctx context.Context, w broker.Webhook, id string, event any) error {
	body, err := json.Marshal(event)
	if err != nil {
		return err
	}
	keys, err := read(ctx, s.secrets, w.ProjectID, w.ID)
	if err != nil {
		return err
	}
	ctx, done := context.WithTimeout(ctx, s.timeout)
	defer done()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	at := s.now()
	req.Header.Set("Content-Type", api.WebhookContentType)
	req.Header.Set("User-Agent", "hostler-webhook")
	req.Header[HeaderID] = []string{id}
	req.Header[HeaderTimestamp] = []string{strconv.FormatInt(at.Unix(), 10)}
	req.Header[HeaderSignature] = []string{keys.header(id, at, body)}
	res, err := s.client.Do(req)
	if err != nil {
		return explain(err)
	}
	_ = res.Body.Close() // unread: nothing in it is of use, and the connection is closed
	return judge(res.StatusCode)
}

// judge turns the status of an answer into nil or a failure.
func judge(status int) error {
	switch {
	case status >= 200 && status < 300:
		return nil
	case status == http.StatusGone:
		return broker.Errorf(broker.Refused, "webhook_gone", "the endpoint answered 410: it wants nothing more")
	case status >= 300 && status < 400:
		return broker.Errorf(broker.Refused, "webhook_redirected", "the endpoint answered %d, and redirects are not followed (use the URL it redirects to)", status)
	}
	return broker.Errorf(broker.Refused, "webhook_refused", "the endpoint answered %d (it must answer 200 to 299)", status)
}

// explain turns an error of the client into words of our own: its text has addresses, and what the
// other side wrote.
func explain(err error) error {
	var own *broker.Error
	var uncertified *tls.CertificateVerificationError
	var wrapped *url.Error
	var network net.Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &uncertified):
		why := "it ends in no certificate that the broker trusts"
		if errors.As(err, &x509.HostnameError{}) {
			why = "it is for another name"
		} else if expired := (x509.CertificateInvalidError{}); errors.As(err, &expired) && expired.Reason == x509.Expired {
			why = "it has expired or is not valid yet"
		}
		return broker.Errorf(broker.Refused, "webhook_certificate_refused", "the endpoint's TLS certificate is not accepted: %s", why)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return broker.Errorf(broker.Unavailable, "webhook_timeout", "the endpoint did not answer in time (it must answer within 10 seconds)")
	case errors.As(err, &wrapped):
		return broker.Errorf(broker.Unavailable, "webhook_unreachable", "the endpoint cannot be reached, or ended the connection without an answer")
	}
	return err
}
