package cloudinit

import (
	"fmt"
	"strings"
)

// Command returns one line for an operator to paste into a shell of the machine. The token goes to
// the agent's stdin, not into an argv; a leading space keeps the line out of the history of shells
// that honour it. Code: bootstrap_invalid.
func Command(in Input) (string, error) {
	if err := in.check(); err != nil {
		return "", err
	}
	var steps []string
	if in.Package != nil {
		// The digest identifies the package; the agent checks the certificate, against the
		// fingerprint.
		fetch := fmt.Sprintf("curl --fail --silent --show-error --insecure --output hostler-agent.deb '%s'", in.packageURL())
		for _, m := range in.Package.Mirrors {
			fetch += fmt.Sprintf(" || curl --fail --silent --show-error --location --output hostler-agent.deb '%s'", m)
		}
		steps = append(steps, `cd "$(mktemp --directory)"`, "{ "+fetch+"; }",
			fmt.Sprintf("echo '%s  hostler-agent.deb' | sha256sum --check", in.Package.SHA256),
			"$S dpkg --install ./hostler-agent.deb")
	}
	machine := ""
	if in.MAASSystemID != "" {
		machine = " --maas-system-id " + in.MAASSystemID
	}
	enroll := fmt.Sprintf("$S hostler-agent enroll --broker '%s' --ca-sha256 %s%s --token-file - <<< '%s'", in.BrokerURL, in.CASHA256,
		machine, in.Token.Reveal())
	steps = append(steps, enroll, "$S systemctl enable --now hostler-agent.service")
	// A machine where the operator is root often has no sudo.
	return ` [ "$(id -u)" -eq 0 ] && S= || S=sudo; ` + strings.Join(steps, " && "), nil
}
