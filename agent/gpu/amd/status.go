package amd

import (
	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

// CodeDriverRestartFailed means that amdgpu could not start the GPU again after a reset or a
// partition change.
const CodeDriverRestartFailed taskcatalog.Code = "driver_restart_failed"

const (
	ok                 status = 0
	notSupported       status = 2
	notImplemented     status = 3
	noPermission       status = 10
	outOfResources     status = 15
	directoryMissing   status = 20
	busy               status = 30
	notFound           status = 31
	driverNotLoaded    status = 34
	fileMissing        status = 52
	restartFailed      status = 54
	settingUnavailable status = 55
)

// statusCodes are the statuses with a code of their own.
var statusCodes = map[status]struct {
	code taskcatalog.Code
	text string
}{
	notSupported:       {gpu.CodeUnsupported, "not supported here"},
	notImplemented:     {gpu.CodeUnsupported, "not implemented in this version"},
	settingUnavailable: {gpu.CodeUnsupported, "this GPU has no such setting"},
	directoryMissing:   {gpu.CodeUnsupported, "the driver offers no file for it"},
	fileMissing:        {gpu.CodeUnsupported, "the driver offers no file for it"},
	noPermission:       {gpu.CodeNoPermission, "permission denied"},
	busy:               {gpu.CodeDeviceBusy, "the GPU is in use"},
	notFound:           {gpu.CodeDeviceLost, "the GPU is gone"},
	driverNotLoaded:    {gpu.CodeDriverMissing, "the amdgpu driver is not loaded"},
	restartFailed:      {CodeDriverRestartFailed, "amdgpu could not start the GPU again (reboot the node)"},
}

// err returns nil for success; what is the wanted action, as after "cannot".
func (s status) err(what string) error {
	if s == ok {
		return nil
	}
	if known, is := statusCodes[s]; is {
		return taskcatalog.Errorf(known.code, "cannot %s: %s (AMD SMI status %d)", what, known.text, s)
	}
	return taskcatalog.Errorf(gpu.CodeDriverFailed, "cannot %s: AMD SMI status %d", what, s)
}
