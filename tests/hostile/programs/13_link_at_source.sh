cat source
