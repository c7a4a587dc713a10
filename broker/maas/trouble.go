package maas

import (
	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
)

// The classes that these stages fail with.
const (
	inputError        = chain.Class(broker.InputConfigError)
	capabilityMissing = chain.Class(broker.SiteCapabilityMissing)
	transient         = chain.Class(broker.UpstreamTransient)
	bmcFailure        = chain.Class(broker.BMCPowerFailure)
	pxeDiscovery      = chain.Class(broker.PXEDiscoveryFailure)
	mismatch          = chain.Class(broker.HardwareMismatch)
	deployFailure     = chain.Class(broker.DeployCloudInitFailure)
	syncFailure       = chain.Class(broker.HardwareSyncFailure)
	enrollmentFailure = chain.Class(broker.AgentEnrollmentFailure)
	ambiguity         = chain.Class(broker.StateAmbiguity)
)
