package secrets

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/internal/regular"
	"github.com/hostler/hostler/taskcatalog"
)

// callTime bounds one request to Vault.
const callTime = 10 * time.Second

// Vault stores secrets in a KV engine, version 2, of HashiCorp Vault. Vault caches no secret: each
// use is a request.
type Vault struct {
	mount  string
	prefix string // ends in a slash, or is empty
	wire   *wire
	login  login
	now    func() time.Time
}

// OpenVault prepares the use of a Vault without a request: a broker can start while Vault is down.
// Code: secrets_config_invalid.
func OpenVault(c VaultConfig, now func() time.Time) (*Vault, error) {
	base, err := c.check()
	if err != nil {
		return nil, err
	}
	roots, err := rootsIn(c.CAFile)
	if err != nil {
		return nil, err
	}
	w := newWire(base, c.Namespace, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Time: now})
	v := &Vault{mount: c.Mount, wire: w, now: now}
	if c.Prefix != "" {
		v.prefix = c.Prefix + "/"
	}
	if v.login = tokenFile(c.TokenFile); c.AppRole != nil {
		v.login = newAppRoleLogin(*c.AppRole, w, now)
	}
	return v, nil
}

// maxRoots bounds a file of certificates, in bytes.
const maxRoots = 1 << 20

func rootsIn(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil // the machine's own
	}
	raw, err := regular.Read(file, maxRoots)
	if err != nil {
		return nil, misconfigured("vault.ca_file: %v", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(raw) {
		return nil, misconfigured("vault.ca_file %s contains no certificate", file)
	}
	return roots, nil
}

// Close closes idle connections.
func (v *Vault) Close() error { v.wire.client.CloseIdleConnections(); return nil }

type version struct {
	Version int `json:"version"`
}

// Get implements Keeper.
func (v *Vault) Get(ctx context.Context, path string) ([]byte, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	var got struct {
		Data struct {
			Data     fields  `json:"data"`
			Metadata version `json:"metadata"`
		} `json:"data"`
	}
	if err := v.call(ctx, "read", path, request{http.MethodGet, v.data(path), nil}, &got); err != nil {
		return nil, err
	}
	if got.Data.Metadata.Version == 0 {
		return nil, v.notVersioned("read", path)
	}
	if len(got.Data.Data) == 0 {
		return nil, notFound(path)
	}
	value, err := fromFields(got.Data.Data)
	if err != nil || len(value) == 0 || len(value) > maxValue {
		return nil, broker.Errorf(broker.Refused, "secret_unreadable",
			"cannot read secret %s: its value in Vault is empty or larger than 64 KiB (set the secret again)", path)
	}
	return value, nil
}

// Put implements Keeper. Put first sets the entry to keep one version, so that Vault destroys the
// previous version when it accepts the new one.
func (v *Vault) Put(ctx context.Context, path string, value []byte) error {
	return v.put(ctx, path, value, nil)
}

// Ensure implements Keeper. Vault accepts the value only if the entry has no version. A version
// deleted by hand counts as a version; a person must decide whether to restore it.
func (v *Vault) Ensure(ctx context.Context, path string, value []byte) ([]byte, error) {
	there, err := v.Get(ctx, path)
	if broker.AsError(err).Code != "secret_not_found" {
		return there, err
	}
	none := 0
	unset := v.put(ctx, path, value, &none)
	if unset != nil && broker.AsError(unset).Code != "secret_unwritable" {
		return nil, unset
	}
	// The value is ours, or that of a faster writer.
	there, err = v.Get(ctx, path)
	switch {
	case unset != nil && broker.AsError(err).Code == "secret_not_found":
		return nil, broker.Errorf(broker.Unavailable, "secret_unwritable",
			"cannot write secret %s in Vault at %s: the secret has no value, and Vault refuses the first one (if it was deleted by hand, bring it back with vault kv undelete, or remove its entry with vault kv metadata delete; otherwise check whether a policy restricts the fields)", path, v.wire.base.Host)
	case unset != nil && err != nil:
		return nil, unset
	}
	return there, err
}

// put writes a value; with cas, only if the entry's version is *cas.
func (v *Vault) put(ctx context.Context, path string, value []byte, cas *int) error {
	if err := checkPath(path); err != nil {
		return err
	}
	if err := checkValue(path, value); err != nil {
		return err
	}
	doc, err := toFields(value)
	if err != nil {
		return invalidValue(path)
	}
	one := map[string]int{"max_versions": 1}
	if err := v.call(ctx, "write", path, request{http.MethodPost, v.metadata(path), one}, nil); err != nil {
		return err
	}
	body := map[string]any{"data": doc}
	if cas != nil {
		body["options"] = map[string]int{"cas": *cas}
	}
	var put struct {
		Data version `json:"data"`
	}
	if err := v.call(ctx, "write", path, request{http.MethodPost, v.data(path), body}, &put); err != nil {
		return err
	}
	if put.Data.Version == 0 {
		return v.notVersioned("write", path)
	}
	return nil
}

// Delete implements Keeper. Delete removes the entry with every version.
func (v *Vault) Delete(ctx context.Context, path string) error {
	if err := checkPath(path); err != nil {
		return err
	}
	err := v.call(ctx, "delete", path, request{http.MethodDelete, v.metadata(path), nil}, nil)
	var e *broker.Error
	if errors.As(err, &e) && e.Kind == broker.NotFound {
		return nil
	}
	return err
}

func (v *Vault) data(path string) string     { return v.mount + "/data/" + v.prefix + path }
func (v *Vault) metadata(path string) string { return v.mount + "/metadata/" + v.prefix + path }

// call makes one request with a token, and repeats the request once if the token had ended.
func (v *Vault) call(ctx context.Context, verb, path string, r request, into any) error {
	for {
		token, err := v.login.token(ctx)
		if err != nil {
			return v.requestError(ctx, verb, path, err)
		}
		err = v.wire.send(ctx, token, r, into)
		if isStatus(err, http.StatusForbidden) && v.login.renew(token) {
			continue
		}
		return v.requestError(ctx, verb, path, err)
	}
}

// requestError explains a failed request to the caller.
func (v *Vault) requestError(ctx context.Context, verb, path string, err error) error {
	unavailable := func(code, format string, args ...any) error {
		args = append([]any{verb, path, v.wire.base.Host}, args...)
		return broker.Errorf(broker.Unavailable, code, "cannot %s secret %s in Vault at %s: "+format, args...)
	}
	var answer *status
	var refused *loginRefused
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err() // the caller has gone; this says nothing about Vault
	case errors.As(err, &refused):
		return unavailable("secrets_login_failed", "%s", refused.why)
	case !errors.As(err, &answer):
		return unavailable("secrets_unavailable", "%s", plainCause(err))
	}
	switch answer.code {
	case http.StatusNotFound:
		if answer.noMount {
			return unavailable("secrets_unavailable", "there is no engine at mount %s (enable KV version 2 there, or correct vault.mount)",
				v.mount)
		}
		return notFound(path)
	case http.StatusForbidden:
		return unavailable("secret_forbidden", "Vault denies access (allow %s, and check whether the broker's token has expired)",
			v.needs(verb, path))
	case http.StatusBadRequest:
		if verb == "write" {
			return unavailable("secret_unwritable",
				"Vault refuses the value (check cas_required on %s, and policies that restrict the fields)", v.mount)
		}
	}
	return unavailable("secrets_unavailable", "%s", answer.meaning())
}

// needs names the capabilities that the broker's policy must grant.
func (v *Vault) needs(verb, path string) string {
	switch verb {
	case "read":
		return "read on " + v.data(path)
	case "write":
		return "create and update on " + v.data(path) + " and " + v.metadata(path)
	}
	return "delete on " + v.metadata(path)
}

func (v *Vault) notVersioned(verb, path string) error {
	return broker.Errorf(broker.Unavailable, "secrets_unavailable",
		"cannot %s secret %s in Vault at %s: mount %s is not a KV engine of version 2 (enable versioning there)", verb, path,
		v.wire.base.Host, v.mount)
}

func notFound(path string) error {
	return broker.Errorf(broker.NotFound, "secret_not_found", "cannot find secret %s (set it first)", path)
}

func invalidValue(path string) error {
	return broker.Errorf(broker.Invalid, "secret_value_invalid", "cannot store secret %s: the value cannot be written as JSON", path)
}

// plainCause says why there was no answer, without anything that was sent or received.
func plainCause(err error) string {
	var cert *tls.CertificateVerificationError
	var dial *net.OpError
	var u *url.Error
	switch {
	case errors.As(err, &u) && u.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "Vault did not answer in time (check Vault's health and the network)"
	case errors.As(err, &cert):
		return "Vault's certificate does not verify (set vault.ca_file to its CA): " + clean(cert.Err)
	case errors.As(err, &dial) && dial.Op == "dial":
		return "Vault cannot be reached: " + clean(dial.Err)
	case errors.Is(err, errTooLarge), errors.Is(err, errNotVault):
		return err.Error() + " (check vault.address)"
	}
	return "the connection was lost before its answer (try again)"
}

func clean(err error) string { return taskcatalog.Clean(err.Error(), 200) }
