package main

import (
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/taskcatalog"
)

func nodeCredentialsCommand(a *app) *cobra.Command {
	var file, reason string
	c := &cobra.Command{
		Use: "credentials NODE --maas-token-file FILE|-", Short: "store a node's own MAAS token, for node.hw_sync_reseed",
		Args: exactly("NODE"),
		Long: `Store a node's own MAAS token among the broker's secrets. Only the task
node.hw_sync_reseed of that node gets it. FILE is the machine's
/etc/maas/maas-machine-creds.yml, or the same as JSON, and must be readable by its
owner alone.`,
		Example: "  hostler node credentials gpu-07 --maas-token-file maas-machine-creds.yml",
		RunE: func(c *cobra.Command, args []string) error {
			if file == "" {
				return usage("no token is given (use --maas-token-file FILE, or - for stdin)")
			}
			raw, err := a.readSecret(file)
			if err != nil {
				return err
			}
			defer clear(raw)
			token, err := machineToken(raw)
			if err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			set, err := remote.SetCredentials(c.Context(), args[0], api.NodeCredentials{MAASMachineToken: token, Reason: reason})
			if err != nil {
				return err
			}
			return a.show(set, []string{set.NodeID}, func(p *render.Page) {
				p.Line("stored for node " + set.NodeID + ": " + strings.Join(set.Set, ", "))
			})
		},
	}
	c.Flags().StringVar(&file, "maas-token-file", "", "`FILE` with the machine's MAAS token, or - for stdin")
	reasonFlag(c, &reason)
	return c
}

// machineToken reads MAAS's own file, or only its content. The error repeats nothing of the secret.
func machineToken(raw []byte) (taskcatalog.MAASMachineToken, error) {
	type fields struct {
		Endpoint    string `yaml:"endpoint"`
		ConsumerKey string `yaml:"consumer_key"`
		TokenKey    string `yaml:"token_key"`
		TokenSecret string `yaml:"token_secret"`
	}
	var file struct {
		fields    `yaml:",inline"`
		Reporting struct {
			MAAS fields `yaml:"maas"`
		} `yaml:"reporting"`
	}
	f := fields{}
	if yaml.Unmarshal(raw, &file) == nil {
		f = file.Reporting.MAAS
		if f == (fields{}) {
			f = file.fields
		}
	}
	if f.Endpoint == "" || f.ConsumerKey == "" || f.TokenKey == "" || f.TokenSecret == "" {
		return taskcatalog.MAASMachineToken{}, broker.Errorf(broker.Invalid, "maas_machine_token_invalid",
			"cannot use the token file: it does not have endpoint, consumer_key, token_key and token_secret (as /etc/maas/maas-machine-creds.yml does)")
	}
	return taskcatalog.MAASMachineToken(f), nil
}
