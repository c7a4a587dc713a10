package main

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/clientfile"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/pki"
)

func loginCommand(a *app) *cobra.Command {
	var address, pin, caFile string
	var byCode bool
	c := &cobra.Command{
		Use:   "login --broker URL (--token-file FILE|- | --oidc)",
		Short: "save a broker and a token as a context",
		Long: `Save a broker and a token as a context, and make it the current context.

The broker's root certificate is pinned: by its fingerprint (--ca-sha256; the broker
prints it, and hostler context show shows it), by a file (--ca-file), or, on a
terminal, by your confirmation of the fingerprint.

With --oidc a person signs in at the provider that the broker names: open the address
that is printed, and enter the code. The sign-in is kept beside the context, mode 0600,
and is renewed by itself until the provider ends it. Without --broker, --oidc signs in
again to a context that is there.`,
		Example: "  hostler login --broker https://broker.example:7440 --ca-sha256 FINGERPRINT --token-file admin.token\n" +
			"  hostler login --broker https://broker.example:7440 --ca-sha256 FINGERPRINT --oidc",
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if a.config != "" {
				return usage("cannot use --config with login: it writes a context (use --context to name it)")
			}
			if byCode && address == "" {
				path, name, file, err := a.knownBroker()
				if err != nil {
					return err
				}
				return a.loginByCode(c.Context(), path, name, file)
			}
			base, err := brokerURL(address)
			if err != nil {
				return err
			}
			name := a.context
			if name == "" {
				name = base.Hostname()
				if strings.Contains(name, ":") { // an IPv6 address
					name = "default"
				}
			}
			path, err := a.contextPath(name)
			if err != nil {
				return err
			}
			root, err := a.pinRoot(c.Context(), base, pin, caFile)
			if err != nil {
				return err
			}
			file := &clientfile.File{Broker: base.String(), CA: string(pki.MarshalCerts(root))}
			if byCode {
				return a.loginByCode(c.Context(), path, name, file)
			}
			return a.loginWithToken(c.Context(), path, name, file)
		},
	}
	c.Flags().StringVar(&address, "broker", "", "the broker's address, `https://HOST:PORT`")
	c.Flags().StringVar(&pin, "ca-sha256", "", "hex SHA-256 of the broker's root certificate")
	c.Flags().BoolVar(&byCode, "oidc", false, "sign in at the broker's OpenID Connect provider, by a code")
	c.Flags().StringVar(&caFile, "ca-file", "", "the broker's root certificate, PEM `FILE`")
	return c
}

// loginWithToken saves the context once the broker has accepted the token that the caller names.
func (a *app) loginWithToken(ctx context.Context, path, name string, file *clientfile.File) error {
	token, err := a.bearer("")
	if err != nil {
		return err
	}
	file.TokenFile = name + ".token"
	remote, err := a.clientOf(file, token)
	if err != nil {
		return err
	}
	who, err := remote.Whoami(ctx)
	if err != nil {
		return err
	}
	if err := saveContext(path, name, file, token); err != nil {
		return broker.Errorf(broker.Internal, "config_unwritable", "cannot write context %s: %v", name, err)
	}
	a.contacted = &contacted{api: remote, path: path}
	return a.show(who, []string{name}, func(p *render.Page) {
		p.Line("logged in to " + file.Broker + " as " + who.Name + " (" + who.Role + tokenOfTenant(*who) + "), context " + name)
	})
}

func brokerURL(address string) (*url.URL, error) {
	if address == "" {
		return nil, usage("cannot log in: no broker is given (use --broker https://HOST:PORT)")
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.User != nil || u.RawQuery != "" {
		return nil, usage("cannot use %q as a broker's address (https://HOST:PORT)", address)
	}
	port := u.Port()
	if port == "" {
		port = "7440"
	}
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(u.Hostname(), port)}, nil
}

// saveContext writes the context: the token first, so that a client file never names a missing
// token, and the current context last.
func saveContext(path, name string, file *clientfile.File, token string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := clientfile.WritePrivate(filepath.Join(dir, file.TokenFile), []byte(token+"\n")); err != nil {
		return err
	}
	return saveFile(path, name, file)
}

func saveFile(path, name string, file *clientfile.File) error {
	if err := file.Write(path); err != nil {
		return err
	}
	return clientfile.WritePrivate(filepath.Join(filepath.Dir(path), "current"), []byte(name+"\n"))
}

// pinRoot finds the root certificate to pin. A certificate from the network is accepted only if its
// fingerprint matches the given one, or a person confirms it.
func (a *app) pinRoot(ctx context.Context, base *url.URL, pin, caFile string) (*x509.Certificate, error) {
	if caFile != "" {
		raw, err := a.readBounded(caFile)
		if err != nil {
			return nil, err
		}
		certs, err := pki.ParseCerts(raw)
		if err != nil {
			return nil, broker.Errorf(broker.Invalid, "ca_unreadable", "cannot use %s: %v", caFile, err)
		}
		if root := certs[len(certs)-1]; pin == "" || samePin(root, pin) {
			return root, nil
		}
		return nil, broker.Errorf(broker.Refused, "broker_untrusted", "cannot pin %s: its SHA-256 is not the one given with --ca-sha256",
			caFile)
	}
	if pin == "" && !a.ask {
		return nil, broker.Errorf(broker.Invalid, "root_not_pinned",
			"cannot trust the broker at %s without its fingerprint (use --ca-sha256 or --ca-file)", base)
	}
	root, err := offeredRoot(ctx, base)
	if err != nil {
		return nil, err
	}
	switch {
	case pin == "":
		err := a.askYes("The root certificate of %s has the SHA-256 %s. Does the broker's host show the same fingerprint?", base,
			pki.Fingerprint(root))
		if err != nil {
			return nil, err
		}
	case !samePin(root, pin):
		return nil, broker.Errorf(broker.Refused, "broker_untrusted",
			"cannot trust the broker at %s: its root certificate has the SHA-256 %s, not the one given with --ca-sha256", base,
			pki.Fingerprint(root))
	}
	return root, nil
}

func samePin(root *x509.Certificate, pin string) bool {
	pin = strings.ToLower(strings.TrimPrefix(pin, "sha256:"))
	return subtle.ConstantTimeCompare([]byte(pki.Fingerprint(root)), []byte(pin)) == 1
}

// offeredRoot reads the last certificate of the chain that the broker sends. This connection
// carries nothing else, and the certificate is not yet trusted; the first real request proves the
// chain against it.
func offeredRoot(ctx context.Context, base *url.URL) (*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	dialer := &tls.Dialer{Config: &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // allowed: only the certificate is read, see above
	}}
	conn, err := dialer.DialContext(ctx, "tcp", base.Host)
	if err != nil {
		return nil, broker.Errorf(broker.Unavailable, "broker_unreachable",
			"cannot reach the broker at %s: %v (is it running, and is this its operators' listener?)", base, err)
	}
	defer func() { _ = conn.Close() }()
	chain := conn.(*tls.Conn).ConnectionState().PeerCertificates
	root := chain[len(chain)-1]
	if !root.IsCA || len(chain) < 2 {
		return nil, broker.Errorf(broker.Refused, "broker_untrusted",
			"cannot pin the root of %s: it did not send its chain (use --ca-file)", base)
	}
	return root, nil
}
