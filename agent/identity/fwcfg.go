package identity

import (
	"strings"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/pki"
)

// fwCfgDir is where Linux shows QEMU's option -fw_cfg name=opt/io.hostler/broker,string=…
const fwCfgDir = "/sys/firmware/qemu_fw_cfg/by_name/opt/io.hostler/"

// FwCfg is QEMU's firmware configuration: only root can read it.
func FwCfg(m *machine.Machine) Source {
	return Source{Name: "QEMU fw_cfg", Read: func() (*Bootstrap, error) {
		items := map[string]string{}
		for _, item := range []string{"broker", "ca_sha256", "token", "maas_system_id"} {
			raw, err := read(m, fwCfgDir+item+"/raw", 4096)
			if err != nil {
				return nil, err
			}
			items[item] = fwCfgText(raw)
		}
		if items["broker"] == "" {
			return nil, nil
		}
		return &Bootstrap{
			Broker: items["broker"], CASHA256: items["ca_sha256"],
			Token: pki.EnrollToken(items["token"]), MAASSystemID: items["maas_system_id"],
		}, nil
	}}
}

// fwCfgText drops the NUL and the line end of an item made from a file.
func fwCfgText(raw []byte) string { return strings.Trim(string(raw), "\x00\r\n \t") }
