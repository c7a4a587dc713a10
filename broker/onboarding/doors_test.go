package onboarding_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
	"golang.org/x/crypto/ssh"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/sshseed"
	"github.com/hostler/hostler/taskcatalog/hwsync"
	"github.com/hostler/hostler/test/maassim"
)

// doors are the SSH servers of a world's machines. A machine seeded there reports its hardware at
// once, with the given token.
type doors struct {
	*world
	closed   bool                         // no login succeeds
	rekeyed  bool                         // every machine has another host key
	unsynced bool                         // a seed has no effect
	fails    error                        // the error of each seed
	check    func(id string, call string) // observes the machine of each call
	calls    []string                     // "key ADDRESS", "seed ADDRESS"
}

// deployKey makes the site's key for its deploy user.
func (w *world) deployKey() {
	w.t.Helper()
	private, err := maas.NewDeployKey(rand.Reader, &w.site)
	if err == nil {
		err = maas.PutDeployKey(ctx, w.secrets, w.site, private)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.book.PutSite(w.site)
}

func (d *doors) open(call string, h sshseed.Host) (maassim.Machine, netip.Addr, error) {
	var public ssh.PublicKey
	if h.Key != nil {
		public = h.Key.PublicKey()
	}
	if h.User != d.site.DeployUser || public == nil || !strings.HasPrefix(d.site.DeploySSHPublicKey, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))) {
		d.t.Errorf("%s logs in with %v", h.User, public)
	}
	for _, at := range h.Addresses {
		for _, m := range d.region.Machines() {
			if !slices.Contains(m.Addresses, at.String()) {
				continue
			}
			d.calls = append(d.calls, call+" "+at.String())
			if d.check != nil {
				d.check(m.SystemID, call)
			}
			if m.HostUp && !d.closed {
				return m, at, nil
			}
		}
	}
	return maassim.Machine{}, netip.Addr{}, broker.Errorf(broker.Unavailable, sshseed.Unreachable, "cannot reach the machine: it has no way in")
}

// key is a machine's host key: another key after each deployment.
func (d *doors) key(m maassim.Machine) string {
	key := [32]byte{byte(d.region.Happened(m.SystemID, "deploy"))}
	copy(key[1:], m.SystemID)
	if d.rekeyed {
		key[31] = 1
	}
	text := ssh.Marshal(struct {
		Kind string
		Key  []byte
	}{ssh.KeyAlgoED25519, key[:]})
	public, err := ssh.ParsePublicKey(text)
	if err != nil {
		d.t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))
}

// HostKey implements onboarding.Seeder.
func (d *doors) HostKey(_ context.Context, h sshseed.Host) (string, netip.Addr, error) {
	m, at, err := d.open("key", h)
	if err != nil {
		return "", at, err
	}
	return d.key(m), at, nil
}

// Seed implements onboarding.Seeder.
func (d *doors) Seed(_ context.Context, h sshseed.Host, files hwsync.Files) (netip.Addr, error) {
	m, at, err := d.open("seed", h)
	switch {
	case err != nil:
		return at, err
	case h.HostKey != d.key(m):
		return at, broker.Errorf(broker.Refused, sshseed.HostKeyChanged, "the machine answers with another host key")
	case h.SystemID != m.SystemID:
		return at, broker.Errorf(broker.Refused, sshseed.OtherMachine, "another machine answers")
	case d.fails != nil:
		return at, d.fails
	}
	var creds struct {
		Reporting struct {
			MAAS struct {
				ConsumerKey string `yaml:"consumer_key"`
				Endpoint    string `yaml:"endpoint"`
				TokenKey    string `yaml:"token_key"`
				TokenSecret string `yaml:"token_secret"`
			} `yaml:"maas"`
		} `yaml:"reporting"`
	}
	if err := yaml.Unmarshal(files.Credentials, &creds); err != nil {
		d.t.Error(err)
	}
	c := creds.Reporting.MAAS
	if c.TokenKey != m.Token || c.Endpoint != "http://10.10.0.1:5248/MAAS/metadata/status/"+m.SystemID || !bytes.Contains(files.Timer, []byte("OnCalendar=")) {
		d.t.Errorf("machine %s is given %s of token %q\n%s", m.SystemID, c.Endpoint, c.TokenKey, files.Timer)
	}
	if !d.unsynced {
		d.signal(c.ConsumerKey, c.TokenKey, c.TokenSecret)
	}
	return at, nil
}

// signal acts as a machine that stores its results in MAAS.
func (d *doors) signal(consumer, key, secret string) {
	req, err := http.NewRequest(http.MethodPost, maassim.URL+"/metadata/2012-03-01/", strings.NewReader("op=signal&status=WORKING"))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Authorization", fmt.Sprintf(`OAuth oauth_consumer_key="%s", oauth_token="%s", oauth_signature_method="PLAINTEXT", oauth_signature="%%26%s", oauth_timestamp="%d", oauth_nonce="sync %d", oauth_version="1.0"`,
		consumer, key, secret, d.clock.Now().Unix(), d.clock.Now().UnixNano()))
	res, err := d.region.RoundTripper().RoundTrip(req)
	if err != nil || res.StatusCode != http.StatusOK {
		d.t.Errorf("a sync: %v, %v", res, err)
	}
}
