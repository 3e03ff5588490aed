"""Programs that were written for other libraries run on dcurate. Nothing here loads unless it is asked for."""
