// Package redfishsim simulates the Redfish service of a BMC for tests: service root, sessions, one or
// more systems with power and identity, and the reset action, over HTTPS with a certificate of its own.
// The main type is BMC, an http.Handler. The simulator speaks the protocol, so any Redfish client works
// with it.
//
// A Make decides where makers differ: the paths and their slashes, where the serial number of the machine
// stands, which ResetTypes are allowed and where they are listed, and with which status an accepted reset
// and a reset of a machine that is so already are answered.
//
//	DMTF        the mockups of the specification: /Systems/1, 204
//	Dell        System.Embedded.1; SerialNumber is the board's, SKU the service tag; 204; 409 if already so
//	HPE         slashes at the end of links; 200 with a message; 400 if already so; GracefulShutdown only by ActionInfo
//	Supermicro  UUID with the MAC address at its end; 202 with a task
//
// Time is the field Now. A machine needs PowerTime to go on or off, and is PoweringOn or PoweringOff until
// then. The fields of Faults are the knobs for trouble; they may be changed between two requests.
package redfishsim
