package secretstest

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// The initial content of the fake.
const (
	Mount    = "kv"      // a KV engine, version 2
	OldMount = "old"     // a KV engine, version 1
	Prefix   = "hostler" // below Mount; tokens of the role may use the paths below it
	RoleID   = "role-of-the-broker"
	Root     = "root-token" // may do everything
)

// Faults apply to each request until the next Set.
type Faults struct {
	Status int             // answer with this status, and do nothing
	Header http.Header     // of that answer
	Body   string          // of that answer
	Lose   bool            // execute the request, and close the connection without an answer
	Hang   <-chan struct{} // wait for this channel first
	Life   int             // life of new tokens in seconds; 0: for ever
}

// Vault is a running fake Vault.
type Vault struct {
	*httptest.Server

	ended chan struct{}

	mu       sync.Mutex
	faults   Faults
	secretID string
	tokens   map[string]bool
	entries  map[string]*entry
	old      map[string]any
	sealed   bool
	logins   int
	seen     []string
}

// entry is a secret with its versions; the last version is in force.
type entry struct {
	max, created int
	cas          bool
	versions     map[int]any // nil: deleted, and can be restored
}

// StartVault runs a fake until the test ends. With tls, clients need the server's certificate.
func StartVault(t testing.TB, tls bool) *Vault {
	t.Helper()
	v := &Vault{
		ended: make(chan struct{}), secretID: rand.Text(), tokens: map[string]bool{}, entries: map[string]*entry{},
		old: map[string]any{},
	}
	if tls {
		v.Server = httptest.NewTLSServer(v)
	} else {
		v.Server = httptest.NewServer(v)
	}
	t.Cleanup(func() { close(v.ended); v.Close() })
	return v
}

// Set sets the faults of later requests.
func (v *Vault) Set(f Faults) { v.mu.Lock(); defer v.mu.Unlock(); v.faults = f }

// Logins returns how often the role logged in.
func (v *Vault) Logins() int { v.mu.Lock(); defer v.mu.Unlock(); return v.logins }

// Requests returns the methods and paths requested so far.
func (v *Vault) Requests() []string { v.mu.Lock(); defer v.mu.Unlock(); return slices.Clone(v.seen) }

// NewSecretID gives the role another secret id; earlier secret ids are no longer accepted.
func (v *Vault) NewSecretID() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.secretID = rand.Text()
	return v.secretID
}

func (v *Vault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	f := v.faults
	v.seen = append(v.seen, r.Method+" "+r.RequestURI)
	v.mu.Unlock()
	if f.Hang != nil {
		select {
		case <-f.Hang:
		case <-v.ended:
			return
		case <-r.Context().Done():
			return
		}
	}
	if f.Status != 0 {
		maps.Copy(w.Header(), f.Header)
		w.WriteHeader(f.Status)
		_, _ = w.Write([]byte(f.Body))
		return
	}
	status, body := v.answer(r)
	if f.Lose {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if body != nil {
		_ = json.NewEncoder(w).Encode(body)
	}
}

type object = map[string]any

func refuse(status int, text ...string) (int, any) {
	return status, object{"errors": append([]string{}, text...)}
}

func (v *Vault) answer(r *http.Request) (int, any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	if path == "sys/unseal" {
		v.sealed = false
		return 200, object{"sealed": false}
	}
	if v.sealed {
		return refuse(503, "Vault is sealed")
	}
	var body struct {
		RoleID   string `json:"role_id"`
		SecretID string `json:"secret_id"`
		Max      int    `json:"max_versions"`
		CAS      bool   `json:"cas_required"`
		Data     any    `json:"data"` // Vault, too, rounds numbers
		Options  struct {
			CAS *int `json:"cas"` // the version that must exist; 0: none
		} `json:"options"`
	}
	_ = json.NewDecoder(r.Body).Decode(&body)
	if path == "auth/approle/login" {
		if body.RoleID != RoleID || body.SecretID != v.secretID {
			return refuse(400, "invalid role or secret ID")
		}
		v.logins++
		token := rand.Text()
		v.tokens[token] = true
		return 200, object{"auth": object{"client_token": token, "lease_duration": v.faults.Life}}
	}
	mount, rest, _ := strings.Cut(path, "/")
	kind, name, _ := strings.Cut(rest, "/")
	token := r.Header.Get("X-Vault-Token")
	if path == "auth/token/lookup-self" && (token == Root || v.tokens[token]) {
		life := v.faults.Life // the fake's tokens do not age
		return 200, object{"data": object{"ttl": life, "creation_ttl": life}}
	}
	if token != Root && (!v.tokens[token] || mount != OldMount && !strings.HasPrefix(name, Prefix+"/")) {
		return refuse(403, "1 error occurred:\n\t* permission denied\n\n")
	}
	switch {
	case path == "sys/seal":
		v.sealed = true
		return 204, nil
	case path == "sys/leases/revoke-prefix/auth/approle/login":
		clear(v.tokens)
		return 204, nil
	case mount == OldMount:
		return v.versionOne(r.Method, rest, body.Data)
	case mount == Mount && kind == "data":
		return v.data(r, name, body.Data, body.Options.CAS)
	case mount == Mount && kind == "metadata":
		return v.metadata(r.Method, name, body.Max, body.CAS)
	}
	return refuse(404, "no handler for route \""+path+"\". route entry not found.")
}

func (v *Vault) data(r *http.Request, name string, data any, cas *int) (int, any) {
	e := v.entries[name]
	switch r.Method {
	case http.MethodGet:
		if e == nil || e.created == 0 {
			return refuse(404)
		}
		n := e.created
		if asked, err := strconv.Atoi(r.URL.Query().Get("version")); err == nil {
			n = asked
		}
		value, found := e.versions[n]
		if !found {
			return refuse(404)
		}
		if value == nil {
			return 404, object{"data": object{"data": nil, "metadata": object{"version": n, "deletion_time": "2026-01-01T00:00:00Z"}}}
		}
		return 200, object{"data": object{"data": value, "metadata": object{"version": n}}}
	case http.MethodDelete:
		if e != nil {
			e.versions[e.created] = nil
		}
		return 204, nil
	}
	switch e = v.entry(name); {
	case e.cas && cas == nil:
		return refuse(400, "check-and-set parameter required for this call")
	case cas != nil && *cas != e.created:
		return refuse(400, "check-and-set parameter did not match the current version")
	}
	e.created++
	e.versions[e.created] = data
	keep := e.max
	if keep == 0 {
		keep = 10
	}
	maps.DeleteFunc(e.versions, func(n int, _ any) bool { return n <= e.created-keep })
	return 200, object{"data": object{"version": e.created}}
}

func (v *Vault) metadata(method, name string, most int, cas bool) (int, any) {
	switch e := v.entries[name]; {
	case method == http.MethodDelete:
		delete(v.entries, name)
		return 204, nil
	case method != http.MethodGet:
		e := v.entry(name)
		e.max, e.cas = most, e.cas || cas
		return 204, nil
	case e == nil:
		return refuse(404)
	default:
		versions := object{}
		for n := range e.versions {
			versions[strconv.Itoa(n)] = object{"destroyed": false}
		}
		return 200, object{"data": object{"versions": versions, "current_version": e.created}}
	}
}

func (v *Vault) entry(name string) *entry {
	if v.entries[name] == nil {
		v.entries[name] = &entry{versions: map[int]any{}}
	}
	return v.entries[name]
}

// versionOne is an engine without versions: it stores the request's data.
func (v *Vault) versionOne(method, name string, data any) (int, any) {
	switch value, found := v.old[name]; {
	case method != http.MethodGet:
		v.old[name] = data
		return 204, nil
	case !found:
		return refuse(404)
	default:
		return 200, object{"data": object{"data": value}}
	}
}
