package erasetest

import (
	"fmt"
	"os"
)

// identify is hdparm -I.
func (c *call) identify() int {
	if _, err := os.Stat(c.play("silent")); err == nil {
		fmt.Fprintln(os.Stderr, "HDIO_DRIVE_CMD(identify) failed: Input/output error")
		return 5
	}
	is := func(on bool, text string) string {
		if on {
			return "\t\t" + text
		}
		return "\tnot\t" + text
	}
	fmt.Printf("\n/dev/sda:\n\nATA device, with non-removable media\n\tModel Number:       %s extra   \n\tSerial Number:      %s\nStandards:\n\tSupported: 10 9\nCapabilities:\n\tLBA, IORDY(can be disabled)\n", c.Model, c.Serial)
	if c.Supported {
		fmt.Println("Security: \n\tMaster password revision code = 65534\n\t\tsupported")
		fmt.Println(is(c.Password != "", "enabled") + "\n" + is(c.Locked, "locked") + "\n" + is(c.Frozen, "frozen") +
			"\n\tnot\texpired: security count\n" + is(c.Enhanced, "supported: enhanced erase"))
		fmt.Println("\t2min for SECURITY ERASE UNIT. 2min for ENHANCED SECURITY ERASE UNIT.\nLogical Unit WWN Device Identifier: 5002538d00000001\nChecksum: correct")
	}
	return 0
}

// security is hdparm --user-master u --security-…; it changes the drive.
func (c *call) security() int {
	verb := c.args[2]
	switch {
	case c.Frozen:
		fmt.Fprintln(os.Stderr, "SG_IO: bad/missing sense data")
		return 5
	case verb == "--security-set-pass":
		c.Password = "ours"
	case c.Password != "ours":
		fmt.Fprintln(os.Stderr, "SG_IO: bad/missing sense data")
		return 5
	case verb == "--security-unlock":
		c.Locked = false
	case verb == "--security-disable":
		c.Password = ""
	default:
		c.wipe(c.device)
		if !c.KeepsPassword {
			c.Password = ""
		}
	}
	return 0
}
