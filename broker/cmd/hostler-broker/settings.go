package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/internal/regular"
	"github.com/hostler/hostler/broker/opa"
	"github.com/hostler/hostler/broker/operators"
	"github.com/hostler/hostler/broker/outbox"
	"github.com/hostler/hostler/broker/outbox/nats"
	"github.com/hostler/hostler/broker/outbox/webhook"
	"github.com/hostler/hostler/broker/retention"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/taskcatalog"
)

// settings are the content of --config; a flag overrides a setting.
type settings struct {
	DataDir     string `yaml:"data_dir"`
	Listen      string `yaml:"listen"`
	AgentListen string `yaml:"agent_listen"`
	Advertise   string `yaml:"advertise"`
	// RelayListen and RelayAdvertise belong to this replica's relay.
	RelayListen    string `yaml:"relay_listen"`
	RelayAdvertise string `yaml:"relay_advertise"`
	DB             string `yaml:"db"`
	// Secrets is file, vault, or vault://HOST[:PORT]/MOUNT[/PREFIX].
	Secrets string              `yaml:"secrets"`
	Vault   secrets.VaultConfig `yaml:"vault"`
	// Events limits the age and the number of events, and names where they are relayed to.
	Events eventSettings `yaml:"events"`
	// Diagnostics is how long collected diagnostics are kept.
	Diagnostics taskqueue.ArchivePolicy `yaml:"diagnostics"`
	// History is how long tasks and runs are kept.
	History    retention.Policy  `yaml:"history"`
	Operations operationSettings `yaml:"operations"`
	// OIDC is who may sign in by OpenID Connect, and as what; nil: nobody.
	OIDC *operators.PeopleConfig `yaml:"oidc"`
	// Proxies are addresses and prefixes of proxies whose X-Forwarded-For is believed.
	Proxies []string `yaml:"proxies"`
}

// operationSettings are the settings of operations.
type operationSettings struct {
	OPA *opa.Config `yaml:"opa"` // nil: no policy engine is asked
}

const maxSettings = 64 << 10

// eventSettings are the settings of events.
type eventSettings struct {
	outbox.Policy `yaml:",inline"`

	NATS     *nats.Config   `yaml:"nats"` // nil: nowhere
	Webhooks webhook.Config `yaml:"webhooks"`
}

// where adds the flags that name the broker.
func (s *settings) where(c *cobra.Command) {
	c.Flags().StringVar(&s.DataDir, "data-dir", "", "directory of the broker's files")
	c.Flags().StringVar(&s.DB, "db", "", "postgres://… instead of SQLite in the data directory (HOSTLER_DB keeps a password out of argv)")
	c.Flags().String("config", "",
		"file with the same settings: data_dir, listen, agent_listen, advertise, relay_listen, relay_advertise, db, secrets, vault, events, diagnostics, history, operations, oidc, proxies")
}

// load completes the flags from the environment and the config file. Code:
// config_invalid.
func (s *settings) load(c *cobra.Command) error {
	if u, err := url.Parse(s.DB); s.DB != "" && err == nil {
		if _, has := u.User.Password(); has {
			_, _ = fmt.Fprintln(c.ErrOrStderr(),
				"warning: everybody on this machine can see the password in --db (use HOSTLER_DB or --config)")
		}
	}
	var file settings
	if path, err := c.Flags().GetString("config"); err == nil && path != "" {
		if err := readSettings(path, &file); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		to   *string
		from []string
	}{
		{&s.DataDir, []string{file.DataDir}},
		{&s.Listen, []string{file.Listen}},
		{&s.AgentListen, []string{file.AgentListen}},
		{&s.Advertise, []string{file.Advertise}},
		{&s.RelayListen, []string{file.RelayListen}},
		{&s.RelayAdvertise, []string{file.RelayAdvertise}},
		{&s.DB, []string{os.Getenv("HOSTLER_DB"), file.DB}},
		{&s.Secrets, []string{file.Secrets}},
	} {
		for _, v := range f.from {
			if *f.to == "" {
				*f.to = v
			}
		}
	}
	s.Vault, s.Events, s.Diagnostics, s.History = file.Vault, file.Events, file.Diagnostics, file.History
	s.Operations, s.OIDC, s.Proxies = file.Operations, file.OIDC, file.Proxies
	if s.DataDir == "" {
		return usage("%s needs a data directory (use --data-dir DIR)", c.CommandPath())
	}
	return nil
}

// keeper returns the Vault that keeps the secrets; nil: the secrets are files. A vault: section
// that secrets: does not select is refused, so that no secret ends up in a file by mistake. Code:
// secrets_config_invalid.
func (s *settings) keeper() (*secrets.VaultConfig, error) {
	vault := s.Vault
	switch {
	case s.Secrets == "file":
		return nil, nil
	case s.Secrets == "" && vault == (secrets.VaultConfig{}):
		return nil, nil
	case s.Secrets == "vault":
		return &vault, nil
	case strings.HasPrefix(s.Secrets, "vault://"):
		return &vault, vault.Locate(s.Secrets)
	case s.Secrets == "":
		return nil, broker.Errorf(broker.Invalid, "secrets_config_invalid",
			"cannot tell where to store secrets: the config has vault: but no secrets: (write secrets: vault, or secrets: file)")
	}
	return nil, broker.Errorf(broker.Invalid, "secrets_config_invalid",
		"cannot tell where to store secrets (use file, vault, or vault://HOST:PORT/MOUNT[/PREFIX])")
}

func readSettings(path string, into *settings) error {
	raw, err := regular.Read(path, maxSettings)
	if err != nil {
		return broker.Errorf(broker.Invalid, "config_invalid", "cannot read config: %v", err)
	}
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return broker.Errorf(broker.Invalid, "config_invalid", "cannot use config %s: %s", path,
			taskcatalog.Clean(strings.Join(strings.Fields(err.Error()), " "), 300))
	}
	return nil
}
